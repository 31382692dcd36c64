package challenge

import (
	"context"
	"io"
	"strconv"
)

// route asks for the cheapest route through a weighted graph.
type route struct{}

type routeInput struct {
	Edges []edge `json:"edges"`
	From  int    `json:"from"`
	To    int    `json:"to"`
}

// edge is [node, node, cost], in both directions.
type edge [3]int

// Bounds on the work: nodes * (nodes + edges) steps.
const (
	maxNodes = 64
	maxEdges = 512
	maxCost  = 1 << 20
)

const routeInstructions = `Input: an undirected weighted graph. Each of "edges" is [node,node,cost] and can be used ` +
	`in both directions. Find the route from node "from" to node "to" with the least total cost; there is exactly ` +
	`one. The answer text is the route's nodes in order, joined by "-", then ":" and the total cost, such as ` +
	`3-0-7:19.` + hashIt

func (route) Kind() string { return "route" }

func (route) Generate(r io.Reader, d Difficulty) (Task, string, error) {
	rnd := &random{r: r}
	nodes, edges, hops := pick(d, 6, 10, 20), pick(d, 9, 20, 44), pick(d, 2, 3, 4)
	for rnd.err == nil {
		in := routeInput{Edges: drawGraph(rnd, nodes, edges), From: rnd.below(nodes)}
		var s routes
		s.search(in.Edges, in.From)
		if in.To = s.farthest(in.From); s.hops[in.To] < hops {
			continue
		}
		if rnd.err != nil {
			break
		}
		t, err := newTask(routeInstructions, in)
		return t, s.text(in.To), err
	}
	return Task{}, "", rnd.err
}

func drawGraph(rnd *random, nodes, edges int) []edge {
	graph := make([]edge, 0, edges)
	var joined [maxNodes]uint64 // bit b of joined[a]: an edge between a and b
	join := func(a, b int) {
		if joined[a]&(1<<b) == 0 {
			joined[a] |= 1 << b
			joined[b] |= 1 << a
			graph = append(graph, edge{a, b, rnd.between(2, 60)})
		}
	}
	for n := 1; n < nodes; n++ { // a tree first: it reaches every node
		join(n, rnd.below(n))
	}
	for len(graph) < edges && rnd.err == nil {
		join(rnd.two(nodes))
	}
	shuffle(rnd, graph)
	return graph
}

func (p route) Solve(_ context.Context, t Task) (string, error) {
	in := routeInput{Edges: make([]edge, 0, 32)}
	if !decodeInput(t.Input, &in) || !in.valid() {
		return "", errUnsolvable(p.Kind())
	}
	var s routes
	s.search(in.Edges, in.From)
	if s.ways[in.To] != 1 {
		return "", errUnsolvable(p.Kind())
	}
	return s.text(in.To), nil
}

func (in *routeInput) valid() bool {
	if len(in.Edges) > maxEdges || in.From == in.To || !node(in.From) || !node(in.To) {
		return false
	}
	for _, e := range in.Edges {
		if !node(e[0]) || !node(e[1]) || e[2] < 1 || e[2] > maxCost {
			return false
		}
	}
	return true
}

func node(n int) bool { return n >= 0 && n < maxNodes }

type routes struct {
	cost, before, hops [maxNodes]int
	ways               [maxNodes]int // cheapest routes to a node: 0, 1, or 2 for more
}

// search finds and counts the cheapest routes with Dijkstra's algorithm. Costs are positive, so all routes to a settled
// node are known.
func (s *routes) search(graph []edge, from int) {
	var settled [maxNodes]bool
	s.ways[from], s.before[from] = 1, -1
	for {
		at := -1
		for n := range maxNodes {
			if s.ways[n] > 0 && !settled[n] && (at < 0 || s.cost[n] < s.cost[at]) {
				at = n
			}
		}
		if at < 0 {
			return
		}
		settled[at] = true
		for _, e := range graph {
			switch at {
			case e[0]:
				s.extend(at, e[1], e[2])
			case e[1]:
				s.extend(at, e[0], e[2])
			}
		}
	}
}

func (s *routes) extend(at, to, cost int) {
	cost += s.cost[at]
	switch {
	case s.ways[to] == 0 || cost < s.cost[to]:
		s.cost[to], s.before[to], s.hops[to], s.ways[to] = cost, at, s.hops[at]+1, s.ways[at]
	case cost == s.cost[to]:
		s.ways[to] = 2
	}
}

// farthest returns the node with the most hops and a unique route, or from.
func (s *routes) farthest(from int) (to int) {
	to = from
	for n := range maxNodes {
		if s.ways[n] == 1 && s.hops[n] > s.hops[to] {
			to = n
		}
	}
	return to
}

func (s *routes) text(to int) string {
	var path [maxNodes]int
	i := len(path)
	for at := to; at >= 0; at = s.before[at] {
		i--
		path[i] = at
	}
	b := make([]byte, 0, 64)
	for k, n := range path[i:] {
		if k > 0 {
			b = append(b, '-')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(strconv.AppendInt(append(b, ':'), int64(s.cost[to]), 10))
}
