package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/problem"
)

// getJSON asks the process at an endpoint, unix:PATH. A nil answer is not read.
func getJSON(ctx context.Context, at, path string, answer any) error {
	return callJSON(ctx, at, http.MethodGet, path, nil, answer)
}

// callJSON is getJSON with a method and, unless ask is nil, a body. A refusal comes back with its code.
func callJSON(ctx context.Context, at, method, path string, ask, answer any) error {
	e, err := parseEndpoint(at)
	if err != nil {
		return err
	}
	client, base := e.client()
	defer client.CloseIdleConnections()
	var raw []byte
	if ask != nil {
		if raw, err = json.Marshal(ask); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("no answer at %s (is the process running, and are you its user or root?): %w", at, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		err := problem.Read(resp)
		if said := (*problem.Error)(nil); !errors.As(err, &said) {
			return fmt.Errorf("%s is the endpoint of something that does not know %s %s: %w", at, method, path, err)
		}
		return err
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// jsonFlag adds --json, by which a command prints its result for a program to read.
func jsonFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

// printResult prints a result: v as JSON where that is asked for, else the text.
func printResult(c *cobra.Command, asJSON bool, v any, text string) error {
	if asJSON {
		return printJSON(c.OutOrStdout(), v)
	}
	_, err := fmt.Fprintln(plainWriter{c.OutOrStdout()}, text)
	return err
}

// printJSON writes a result as indented JSON.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
