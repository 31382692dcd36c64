package chain

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"filippo.io/torchwood"
	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/translog"
)

// logFlags name the transparency log that records are compared with.
type logFlags struct{ policy, log string }

const aboutLogPolicy = "the policy (c2sp.org/tlog-policy) that names the key of the transparency log, its witnesses " +
	"and their quorum"

func (f *logFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.policy, "log-policy", "", aboutLogPolicy)
	c.Flags().StringVar(&f.log, "log", "",
		"the transparency log, a URL or a folder: whether it holds posts that are missing here; needs --log-policy")
	cli.Check(c, func(*cobra.Command) error {
		if f.log != "" && f.policy == "" {
			return cli.Usagef("--log needs --log-policy, which has the log's key")
		}
		return nil
	})
}

func (f *logFlags) judge() (*archive.LogJudge, error) {
	if f.policy == "" {
		return archive.NewLogJudge(nil), nil
	}
	raw, err := files.Read(f.policy)
	if err != nil {
		return nil, err
	}
	p, err := translog.ParsePolicy(raw)
	return archive.NewLogJudge(p), err
}

// against compares the records with the whole log, if that is named.
func (f *logFlags) against(c *cobra.Command, j *archive.LogJudge, since, until time.Time) error {
	if f.log == "" {
		return nil
	}
	from, err := openLog(f.log)
	if err == nil {
		_, err = j.Against(c.Context(), from, since, until)
	}
	return err
}

// openLog opens the log at a URL, or in a folder with the same files.
func openLog(at string) (torchwood.TileReader, error) {
	client := &http.Client{Timeout: time.Minute}
	if !strings.HasPrefix(at, "https://") && !strings.HasPrefix(at, "http://") {
		if _, err := os.ReadDir(at); err != nil {
			return nil, err
		}
		client.Transport, at = http.NewFileTransportFS(os.DirFS(at)), "file:///"
	}
	return translog.Fetch(client, at), nil
}

// logged prints the part of a result that the transparency log shows.
type logged struct{ archive.Logged }

func (l logged) refused() bool {
	return l.Untampered.RefusedCount > 0 || l.Complete.Result == archive.CompleteMissing ||
		l.Complete.Result == archive.CompleteRefused
}

const (
	operatorsWord = "the operator's word"
	// indent is the width of the names of lines.
	lineForm, indent = "%-12s %s\n", "             "
)

// print prints three of the four lines of a result. No line speaks for another.
func (l logged) print(out io.Writer) {
	lines := cli.Lines(out)
	fmt.Fprintf(lines, lineForm, "Untampered:", l.untampered())
	for _, d := range l.Untampered.Refused {
		of := ""
		if d.ID != "" {
			of = d.ID + ", "
		}
		fmt.Fprintf(lines, indent+"REFUSED %s%s: %s\n", of, d.Code, d.Detail)
	}
	more(lines, l.Untampered.RefusedCount, len(l.Untampered.Refused), "refused")
	if l.Untampered.Held > 0 { // otherwise it is not known of any
		for _, d := range l.Untampered.NotKnown {
			fmt.Fprintf(lines, indent+"not known of %s: %s\n", d.ID, d.Detail)
		}
		more(lines, l.Untampered.NotKnownCount, len(l.Untampered.NotKnown), "not known")
	}
	fmt.Fprintf(lines, lineForm, "Witnessed:", l.witnessed())
	c := l.Complete
	fmt.Fprintf(lines, lineForm, "Complete:", l.complete())
	for _, m := range c.Missing {
		fmt.Fprintf(lines, indent+"missing: %s\n", m)
	}
	more(lines, int(c.MissingCount), len(c.Missing), "missing")
	for _, g := range c.Gaps {
		fmt.Fprintf(lines, indent+"not known: entry %d: %s\n", g.Index, g.Detail)
	}
}

func more(lines io.Writer, all, listed int, what string) {
	if all > listed {
		fmt.Fprintf(lines, indent+"%d more are %s\n", all-listed, what)
	}
}

func (l logged) untampered() string {
	u := l.Untampered
	switch {
	case u.Held > 0:
		text := fmt.Sprintf("%d of %d records of posts that went out are the ones in the log %s", u.Held, u.Posts,
			u.Log)
		if own := u.Held - l.Witnessed.Posts; own > 0 {
			text += fmt.Sprintf("; of %d that is %s", own, operatorsWord)
		}
		return text
	case u.Posts == 0:
		return "nothing to compare: no record says that its post went out"
	}
	return fmt.Sprintf("not known: no record of %d is proven to be in the log that --log-policy names", u.Posts)
}

func (l logged) witnessed() string {
	if len(l.Witnessed.By) == 0 {
		return "no: " + operatorsWord
	}
	var by []string
	for _, w := range l.Witnessed.By {
		by = append(by, fmt.Sprintf("%s saw %d of %d records by %s", w.Witness, w.Posts, l.Untampered.Posts,
			cli.Time(w.Latest)))
	}
	text := strings.Join(by, "; ")
	if own := l.Untampered.Posts - l.Witnessed.Posts; own > 0 {
		text += fmt.Sprintf("; %d are %s", own, operatorsWord)
	}
	return text
}

func (l logged) complete() string {
	c := l.Complete
	switch c.Result {
	case archive.CompleteMissing:
		return fmt.Sprintf("no: %d posts in the log are missing here", c.MissingCount)
	case archive.CompleteRefused:
		return "REFUSED: " + c.Why + " (mediator log audit lists them)"
	case archive.CompleteNoneMissing:
		text := fmt.Sprintf("all %d posts in the log from %s (entry %d) to %s (entry %d) are here, %s", c.Posts,
			cli.Time(c.From), c.First, cli.Time(c.Until), c.Last, seenBy(c.Witnesses))
		for _, p := range slices.Sorted(maps.Keys(c.Problems)) {
			text += fmt.Sprintf("; the log has %d %s", c.Problems[p], p)
		}
		if c.Outside > 0 {
			text += fmt.Sprintf("; posts in the log before or after these: %d", c.Outside)
		}
		return text
	}
	return "not known: " + cmp.Or(c.Why, "give mediator verify --log and --log-policy")
}

// seenBy names the witnesses of a log, or its operator.
func seenBy(witnesses []translog.Cosignature) string {
	if len(witnesses) == 0 {
		return "by " + operatorsWord
	}
	var by []string
	for _, w := range witnesses {
		by = append(by, fmt.Sprintf("%s at %s", w.Witness, cli.Time(w.Time)))
	}
	return "as seen by " + strings.Join(by, ", ")
}
