package records

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/trigger"
)

const sendTimeout = 30 * time.Second

func eventsSend() *cobra.Command {
	var path, event string
	var test bool
	c := &cobra.Command{
		Use:   "send SOURCE [FILE]",
		Short: "Sign a payload as a webhook's sender would, and deliver it, to try a source",
		Example: `  mediator events send github event.json
  mediator events send github --test
  mediator events send hooks - --config trigger.yaml`,
		Long: `Signs the JSON in FILE (- for standard input) with the source's secret in the trigger service's configuration,
and delivers it to the service on this machine. SOURCE is a configured webhook: github, standardWebhooks or engine. The
delivery is an event like any other: it can open a session and allow a post. GitHub signs the body alone, so the same
body is the same event.

With --test in place of FILE, the command makes a body that starts a run, new each time, for a webhook or a queue.
Schedules make their own events.`,
		Args: func(c *cobra.Command, args []string) error {
			if test {
				return cli.ExactArgs(1, "the name of a source with --test")(c, args)
			}
			return cli.ExactArgs(2, "the name of a source and a file, or a source and --test")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			service, err := config.Load[config.Trigger](path)
			if err != nil {
				return err
			}
			named, err := source(service, args[0])
			if err != nil {
				return err
			}
			var hook *trigger.Webhook
			switch s := named.(type) {
			case *trigger.Webhook:
				hook = s
			case *trigger.Queue:
				if !test {
					return cli.Usagef("%s is a queue: move a file into its subfolder new, or use --test", s.Name())
				}
				if err := s.Test(); err != nil {
					return err
				}
				return cli.Print(c, struct{}{}, "queued: mediator events list shows it once the service has claimed it")
			case *trigger.Schedule:
				return cli.Usagef("%s is a schedule, whose events only the service makes, the next at %s; cron: "+
					"\"@every 30s\" tries it out", s.Name(), s.Next(time.Now()).Format(time.RFC3339))
			}
			var body []byte
			if test {
				var suits string
				suits, body = hook.TestBody()
				event = cmp.Or(event, suits)
			} else if body, err = cli.ReadInput(c, args[1]); err != nil {
				return err
			}
			client, url, err := reach(service, args[0])
			if err != nil {
				return err
			}
			defer client.CloseIdleConnections()
			answer, err := hook.Send(c.Context(), client, url, event, body, time.Now())
			if err != nil {
				return err
			}
			text := answer.EventID
			switch {
			case answer.Duplicate:
				text += " is known already: another body is another event"
			case answer.Ignored:
				text = "ignored: the source starts no run for this event"
			}
			return cli.Print(c, answer, strings.TrimSpace(text))
		},
	}
	c.Flags().BoolVar(&test, "test", false, "send an event of its own, new each time, in place of a file")
	cli.StackFileFlag(c, &path, devstack.TriggerFile)
	c.Flags().StringVar(&event, "event", "",
		"the event's name as GitHub sends it beside the body, such as release; empty takes one that starts a run and "+
			"suits the body")
	cli.JSONFlag(c)
	return c
}

func source(service *config.Trigger, name string) (trigger.Source, error) {
	var names []string
	for _, s := range service.SourceList {
		if s.Name() == name {
			return s, nil
		}
		names = append(names, s.Name())
	}
	slices.Sort(names)
	return nil, cli.Usagef("%s has no source %q: it has %s", service.Path, name, cli.OrDash(strings.Join(names, ", ")))
}

// reach returns a client that uses no proxy, and the URL of a webhook of the service on this machine.
func reach(service *config.Trigger, name string) (*http.Client, string, error) {
	if service.Listen == "" {
		return nil, "", fmt.Errorf("%s does not set listen, so no webhook arrives", service.Path)
	}
	direct, scheme := &http.Transport{}, "http"
	if service.TLSCertificate != "" {
		raw, err := files.Read(service.TLSCertificate)
		if err != nil {
			return nil, "", err
		}
		roots, err := x509.SystemCertPool()
		if err != nil {
			return nil, "", err
		}
		roots.AppendCertsFromPEM(raw)
		direct.TLSClientConfig, scheme = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, "https"
	}
	return &http.Client{Transport: direct, Timeout: sendTimeout},
		scheme + "://" + cli.LocalAddress(service.Listen) + "/hooks/" + name, nil
}
