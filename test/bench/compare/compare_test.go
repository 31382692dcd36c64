package compare

import (
	"slices"
	"testing"
)

// table is what benchstat wrote for benchmarks that became 30 % slower, stayed, became faster, are new, and became 7 % slower.
const table = `goos: linux
pkg: github.com/actionproof/mediator/gate
,v1,,working-tree,,,
,sec/op,CI,sec/op,CI,vs base,P
Admit-2,1.0025e-06,0%,1.3025e-06,0%,+29.93%,p=0.002 n=6
Same-2,1.0025e-06,0%,1.5025e-06,0%,~,p=1.000 n=6
Faster-2,1.0025e-06,0%,7.717e-07,0%,-23.02%,p=0.002 n=6
New-2,,,1.0025e-06,0%
geomean,1.0025e-06,,1.9025e-06,,+90.01%,

,v1,,working-tree,,,
,cpu-sec/op,CI,cpu-sec/op,CI,vs base,P
Admit-2,2.0025e-06,0%,2.6025e-06,0%,+29.96%,p=0.002 n=6

,v1,,working-tree,,,
,B/op,CI,B/op,CI,vs base,P
Admit-2,100,0%,200,0%,+100.00%,p=0.002 n=6

pkg: github.com/actionproof/mediator/ledger
,v1,,working-tree,,,
,sec/op,CI,sec/op,CI,vs base,P
SQLite/Post-2,1.0025e-06,0%,1.0775e-06,0%,+7.48%,p=0.002 n=6
`

func TestSlower(t *testing.T) {
	for threshold, want := range map[float64][]string{
		10: {"gate Admit-2, sec/op: +29.93% (p=0.002 n=6)", "gate Admit-2, cpu-sec/op: +29.96% (p=0.002 n=6)"},
		5: {"gate Admit-2, sec/op: +29.93% (p=0.002 n=6)", "gate Admit-2, cpu-sec/op: +29.96% (p=0.002 n=6)",
			"ledger SQLite/Post-2, sec/op: +7.48% (p=0.002 n=6)"},
		50: nil,
	} {
		got, compared := comparison{threshold: threshold}.slower([]byte(table))
		if !slices.Equal(got, want) || compared != 5 {
			t.Errorf("above %g %%: %q of %d, want %q of 5", threshold, got, compared, want)
		}
	}
}
