// Package otlp sends requests of the OpenTelemetry protocol over HTTP (OTLP/HTTP, opentelemetry.io/docs/specs/otlp) to
// a collector.
package otlp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/actionproof/mediator/internal/wire"
)

const (
	// timeout bounds one request.
	timeout = 10 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 64 << 10
	// MaxWait bounds the wait that a collector may ask for.
	MaxWait = 10 * time.Minute
)

// Collector says where a collector answers.
type Collector struct {
	Endpoint    string         // base URL
	Authorities *x509.CertPool // nil for the system's
	Header      http.Header    // of each request; may hold secrets
}

// Client sends requests to a collector. It is safe for concurrent use.
type Client struct {
	of   Collector
	http *http.Client
}

// NewClient makes a client. It connects with the first request.
func NewClient(c Collector) *Client {
	return &Client{c, &http.Client{Timeout: timeout, CheckRedirect: wire.Stay, Transport: &http.Transport{
		DialContext:     (&net.Dialer{Timeout: timeout}).DialContext,
		TLSClientConfig: &tls.Config{RootCAs: c.Authorities, MinVersion: tls.VersionTLS12},
		MaxIdleConns:    2, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true,
	}}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// RejectedError is the error for a request that the collector took only in part. It must not be sent again.
type RejectedError struct {
	Items uint64 // spans or log records
	Why   string // quoted, in the collector's words
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("the collector refused %d items: %s", e.Items, e.Why)
}

// StatusError is the error for an answer that is no success.
type StatusError struct {
	Status int
	Wait   time.Duration // what the collector asks for before the next request (Retry-After), at most MaxWait
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the collector answered with status %d", e.Status)
}

// Send posts a request to a path, such as /v1/traces. It fails with a [RejectedError] if the collector took only a
// part, and with a [StatusError] if it took nothing. Errors name neither its address nor any header.
func (c *Client) Send(ctx context.Context, path string, m proto.Message) error {
	body, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.of.Endpoint, "/")+path,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range c.of.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := wire.Peer{HTTP: c.http, Name: "the collector", Unavailable: "process_unavailable"}.Send(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode/100 != 2:
		return &StatusError{resp.StatusCode, waitOf(resp.Header.Get("Retry-After"))}
	case err != nil:
		return errors.New("the collector's answer broke off")
	case len(answer) > maxAnswer:
		return fmt.Errorf("the collector's answer is larger than %d bytes", maxAnswer)
	}
	return rejected(answer)
}

// waitOf reads Retry-After (RFC 9110 section 10.2.3): seconds or a date. Without one, or a malformed one, it returns 0.
func waitOf(after string) time.Duration {
	wait := MaxWait
	if seconds, err := strconv.ParseUint(after, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		wait = time.Until(at)
	} else {
		return 0
	}
	return min(max(wait, 0), MaxWait)
}

// WaitOf returns how long the collector asks to wait after an error of [Client.Send]; 0 if it does not say.
func WaitOf(err error) time.Duration {
	if s, ok := errors.AsType[*StatusError](err); ok {
		return s.Wait
	}
	return 0
}

// rejected reads an Export…ServiceResponse, which has the same form for all signals: field 1 is a message with the
// number of rejected items in field 1, and the reason in field 2.
func rejected(answer []byte) error {
	var e RejectedError
	err := fields(answer, func(number protowire.Number, partial []byte, _ uint64) error {
		if number != 1 {
			return nil
		}
		return fields(partial, func(number protowire.Number, text []byte, n uint64) error {
			switch number {
			case 1:
				e.Items = n
			case 2:
				e.Why = fmt.Sprintf("%.200q", text)
			}
			return nil
		})
	})
	if err == nil && e.Items > 0 {
		return &e
	}
	return err
}

// fields calls each with the fields of a message: the bytes or the number that one holds.
func fields(message []byte, each func(number protowire.Number, text []byte, n uint64) error) error {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return errMalformed
		}
		value := message[tag:]
		length := protowire.ConsumeFieldValue(number, kind, value)
		if length < 0 {
			return errMalformed
		}
		var text []byte
		var n uint64
		switch kind {
		case protowire.BytesType:
			text, _ = protowire.ConsumeBytes(value)
		case protowire.VarintType:
			n, _ = protowire.ConsumeVarint(value)
		}
		if err := each(number, text, n); err != nil {
			return err
		}
		message = value[length:]
	}
	return nil
}

var errMalformed = errors.New("the collector's answer is malformed")
