package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/console"
)

// watch logs in to the console with this endpoint as a browser does, and then keeps its feed open until ctx ends.
func watch(ctx context.Context, at string) error {
	var login console.Login
	err := wait(ctx, 50*time.Millisecond, func() error {
		return admin.Call(ctx, at, http.MethodPost, console.LoginPath, nil, &login)
	})
	if err != nil {
		return err
	}
	u, err := url.Parse(login.URL)
	if err != nil {
		return err
	}
	origin := u.Scheme + "://" + u.Host
	jar, _ := cookiejar.New(nil)                                  // never fails
	browser := &http.Client{Jar: jar, Transport: &http.Transport{ // browsers know the names below localhost
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", u.Port()))
		}}}
	ask := func(method, path, form string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, method, origin+path, strings.NewReader(form))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Origin", origin)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := browser.Do(req)
		if err == nil && resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			err = fmt.Errorf("the console answered %s for %s", resp.Status, path)
		}
		return resp, err
	}
	load := func(method, path, form string) error {
		resp, err := ask(method, path, form)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if err := load(http.MethodPost, "/login", u.RawQuery); err != nil {
		return err
	}
	news, err := ask(http.MethodGet, "/live", "")
	if err != nil {
		return err
	}
	go func() {
		defer news.Body.Close()
		for lines := bufio.NewScanner(news.Body); lines.Scan(); {
			if lines.Text() == "event: changed" && load(http.MethodGet, "/feed", "") != nil {
				return
			}
		}
	}()
	return nil
}
