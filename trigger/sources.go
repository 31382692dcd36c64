package trigger

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
)

// sources are the current sources: replaced, never changed.
type sources struct {
	list     []Source
	hooks    map[string]*Webhook
	replaced chan struct{} // when they are replaced
}

func newSources(list []Source) (*sources, error) {
	s := &sources{list: slices.Clone(list), hooks: make(map[string]*Webhook), replaced: make(chan struct{})}
	names := make(map[string]bool)
	for _, source := range list {
		name := source.Name()
		if !isID(name) || names[name] {
			return nil, fmt.Errorf("trigger: each source needs a name of its own, of printable ASCII characters: %.80q",
				name)
		}
		names[name] = true
		switch source := source.(type) {
		case *Webhook:
			s.hooks[name] = source
		case *Queue:
			if err := source.open(); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// SetSources replaces the sources. A delivery in progress keeps its source. Sources in both lists continue; the others
// end or begin.
func (s *Service) SetSources(list []Source) error {
	next, err := newSources(list)
	if err != nil {
		return err
	}
	close(s.from.Swap(next).replaced)
	return nil
}

// runSources runs the current sources until ctx ends. One source's error ends the group.
func (s *Service) runSources(ctx context.Context, group *errgroup.Group) {
	running := make(map[Source]context.CancelFunc)
	for {
		now := s.from.Load()
		for source, end := range running {
			if !slices.Contains(now.list, source) {
				end()
				delete(running, source)
			}
		}
		for _, source := range now.list {
			if running[source] == nil {
				within, end := context.WithCancel(ctx)
				running[source] = end
				group.Go(func() error { return source.Run(within, s) })
			}
		}
		select {
		case <-ctx.Done():
			for _, end := range running {
				end()
			}
			return
		case <-now.replaced:
		}
	}
}
