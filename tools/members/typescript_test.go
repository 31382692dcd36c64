package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDeclarations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.d.ts")
	err := os.WriteFile(path, []byte(`export interface Base {
    /**
     * Header param: sent elsewhere
     */
    betas?: string[];
    model: string;
    logit_bias?: {
        [key: string]: number;
    } | null;
}
export interface Request extends Base {
    "stream"?: boolean;
}
export declare namespace Item {
    interface Reference {
        id: string;
        type?: 'item_reference' | null;
    }
}
export interface Search {
    type: 'search' | 'search_2025';
}
export type Items = Array<Item.Reference> | Search;
export type Key = Key.TextMember | Key.$UnknownMember;
export declare namespace Key {
    interface TextMember {
        text: string;
        image?: never;
    }
    interface $UnknownMember {
        text?: never;
        $unknown: [string, any];
    }
}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		by   func(declarations, string) ([]string, error)
		want []string
	}{
		"Request": {declarations.members, []string{"stream", "model", "logit_bias"}},
		"Items":   {declarations.types, []string{"item_reference", "search", "search_2025"}},
		"Key":     {declarations.keys, []string{"text"}},
	} {
		if got, err := tt.by(all, name); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tt.want)
		}
	}
	if _, err := all.types("Gone"); err == nil {
		t.Error("a type that is not there is found")
	}
}
