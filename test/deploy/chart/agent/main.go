// Command agent posts without an end to the API that the test of the fleet listens at, and prints a line for each
// answer. It is the agent of a pod: the proxy and its CA come from the environment.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const (
	api   = "https://api.github.com/repos/acme/app/issues/1/comments"
	pause = 2 * time.Second // between posts, and before a refused one is tried again
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	name, err := os.Hostname()
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	for ctx.Err() == nil && do(http.MethodGet, "http://mediator.internal/v1/event/next?wait=30s", "") != http.StatusOK {
		wait(ctx)
	}
	for n := 0; ctx.Err() == nil; n++ {
		body := fmt.Sprintf(`{"body": "%s %d"}`, name, n)
		for ctx.Err() == nil && do(http.MethodPost, api, body) != http.StatusCreated {
			wait(ctx)
		}
		wait(ctx)
	}
}

// do returns the status of an answer; 0 for none. A call that has begun ends, even when the pod is to end.
func do(method, url, body string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		fmt.Println("failed", err)
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		fmt.Println("failed", body, err)
		return 0
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	switch {
	case answer.StatusCode == http.StatusCreated:
		fmt.Println("posted", body)
	case answer.StatusCode != http.StatusOK:
		fmt.Println("refused", answer.StatusCode, body, strings.Join(strings.Fields(string(text)), " "))
	}
	return answer.StatusCode
}

func wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
