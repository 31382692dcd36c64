package challenge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

// route asks for the cheapest route through a weighted graph.
type route struct{}

type routeInput struct {
	Edges []edge `json:"edges"`
	From  int    `json:"from"`
	To    int    `json:"to"`
}

// edge is [node, node, cost], good in both directions.
type edge [3]int

const (
	maxRouteNode = 256
	maxRouteEdge = 2048
	maxRouteCost = 1 << 20
)

func (route) Kind() string { return "route" }

func (route) Instructions() string {
	return `The input is an undirected weighted graph: "edges" lists [node, node, cost], each usable in both directions. Find the route from node "from" to node "to" whose costs add up to the least; there is exactly one. The answer text is the route's nodes in order, separated by ">", then ":" and its total cost, for example 3>0>7:19. Submit the lowercase hex SHA-256 of the answer text.`
}

func (p route) Generate(r io.Reader, d Difficulty) (any, string, error) {
	rnd := &random{r: r}
	nodes, extra := pick(d, 6, 9, 16), pick(d, 4, 9, 24)
	for rnd.err == nil {
		in := routeInput{From: 0, To: nodes - 1}
		for n := 1; n < nodes; n++ { // a tree first, so that every node can be reached
			in.Edges = append(in.Edges, edge{rnd.below(n), n, rnd.between(2, 40)})
		}
		for range extra {
			a, b := rnd.below(nodes), rnd.below(nodes)
			if a != b {
				in.Edges = append(in.Edges, edge{a, b, rnd.between(2, 40)})
			}
		}
		rnd.shuffle(len(in.Edges), func(i, j int) { in.Edges[i], in.Edges[j] = in.Edges[j], in.Edges[i] })
		if answer, unique := cheapest(in); unique && strings.Count(answer, ">") > 1 {
			return in, answer, rnd.err
		}
	}
	return nil, "", rnd.err
}

func (p route) Solve(_ context.Context, raw json.RawMessage) (string, error) {
	var in routeInput
	if err := evidence.ParseStrict(raw, &in); err != nil || len(in.Edges) > maxRouteEdge || in.From == in.To {
		return "", malformed(p.Kind())
	}
	for _, e := range append([]edge{{in.From, in.To, 1}}, in.Edges...) {
		if min(e[0], e[1]) < 0 || max(e[0], e[1]) >= maxRouteNode || e[2] < 1 || e[2] > maxRouteCost {
			return "", malformed(p.Kind())
		}
	}
	answer, unique := cheapest(in)
	if !unique {
		return "", malformed(p.Kind())
	}
	return answer, nil
}

// cheapest finds the cheapest route (Dijkstra's algorithm, counting the ways to each node) and whether it is the only one.
func cheapest(in routeInput) (answer string, unique bool) {
	n := max(in.From, in.To) + 1
	for _, e := range in.Edges {
		n = max(n, e[0]+1, e[1]+1)
	}
	const far = 1 << 40
	cost, ways, before, done := make([]int, n), make([]int, n), make([]int, n), make([]bool, n)
	for i := range cost {
		cost[i] = far
	}
	cost[in.From], ways[in.From], before[in.From] = 0, 1, -1
	for {
		at := -1
		for i := range n {
			if !done[i] && cost[i] < far && (at < 0 || cost[i] < cost[at]) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		done[at] = true
		for _, e := range in.Edges {
			next := -1
			switch at {
			case e[0]:
				next = e[1]
			case e[1]:
				next = e[0]
			}
			if next < 0 || next == at {
				continue
			}
			switch c := cost[at] + e[2]; {
			case c < cost[next]:
				cost[next], ways[next], before[next] = c, ways[at], at
			case c == cost[next]:
				ways[next] = min(ways[next]+ways[at], 2) // two are as good as many
			}
		}
	}
	if ways[in.To] != 1 {
		return "", false
	}
	var path []string
	for at := in.To; at >= 0; at = before[at] {
		path = append([]string{fmt.Sprint(at)}, path...)
	}
	return fmt.Sprintf("%s:%d", strings.Join(path, ">"), cost[in.To]), true
}
