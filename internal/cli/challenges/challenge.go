package challenges

import (
	"fmt"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
)

// secretVariable is the environment variable of the shared secret, as in the seed's command line.
const secretVariable = "ACTIONPROOF_SECRET"

// cliIssuer is the iss and the aud of tokens that the command line issues to itself.
const cliIssuer = "actionproof-cli"

// secretFlags are the seed's --secret and ACTIONPROOF_SECRET, and --secret-file, which no process list shows.
type secretFlags struct {
	c            *cobra.Command
	secret, file string
}

func (s *secretFlags) add(c *cobra.Command) {
	s.c = c
	c.Flags().StringVar(&s.secret, "secret", "",
		"the shared secret, at least 32 bytes; it shows in the process list, so prefer "+secretVariable+" or "+
			"--secret-file")
	c.Flags().StringVar(&s.file, "secret-file", "", "file that holds the shared secret")
}

// read returns the secret from a flag, or else from the environment. An empty flag, as from an unset variable, counts.
func (s *secretFlags) read() (evidence.Secret, error) {
	value, bySecret, byFile := s.secret, s.c.Flags().Changed("secret"), s.c.Flags().Changed("secret-file")
	switch {
	case bySecret && byFile:
		return evidence.Secret{}, cli.Usagef("--secret and --secret-file name two secrets; give one")
	case byFile:
		var err error
		if value, err = files.ReadSecret(s.file, 1); err != nil {
			return evidence.Secret{}, fmt.Errorf("--secret-file: %w", err)
		}
	case bySecret && value == "":
		return evidence.Secret{}, cli.Usagef("--secret is empty")
	case !bySecret:
		if value = os.Getenv(secretVariable); value == "" {
			return evidence.Secret{}, cli.Usagef("set %s, or use --secret-file or --secret", secretVariable)
		}
	}
	return evidence.NewSecret([]byte(value))
}

type bindingFlags struct {
	c *cobra.Command
	b evidence.Binding
}

func (f *bindingFlags) add(c *cobra.Command) {
	f.c = c
	c.Flags().StringVar(&f.b.Subject, "subject", "", "on whose behalf")
	c.Flags().StringVar(&f.b.Action, "action", "", "the operation, such as create_post")
	c.Flags().StringVar(&f.b.Resource, "resource", "", `the endpoint, such as "POST /posts"`)
	c.Flags().StringVar(&f.b.ContentHash, "content-hash", "", "the content's hash, as mediator hash-payload prints it")
}

func (f *bindingFlags) given() bool {
	return slices.ContainsFunc([]string{"subject", "action", "resource", "content-hash"}, f.c.Flags().Changed)
}

func (f *bindingFlags) read() (evidence.Binding, error) {
	for _, part := range [][2]string{{"subject", f.b.Subject}, {"action", f.b.Action}, {"resource", f.b.Resource}} {
		if !utf8.ValidString(part[1]) {
			return evidence.Binding{}, cli.Usagef("--%s is not UTF-8", part[0])
		}
	}
	if err := f.b.Check(); err != nil {
		return evidence.Binding{}, cli.Usagef("%v; a binding takes --subject, --action, --resource and --content-hash",
			err)
	}
	return f.b, nil
}

// Challenge returns the commands about challenges.
func Challenge() *cobra.Command {
	return cli.Group("challenge", "Challenges", challengeGenerate(), challengeSolve(), challengeVerify())
}

func challengeGenerate() *cobra.Command {
	var secret secretFlags
	var binding bindingFlags
	var difficulty string
	var ttl int64
	var tasks int
	var pretty bool
	c := &cobra.Command{
		Use: "generate", Short: "Issue a challenge", Args: cli.NoArgs,
		Example: `  hash=$(mediator hash-payload --canonical post.json)
  mediator challenge generate --subject agent:worker-1 --action create_post --resource "POST /posts" \
      --content-hash $hash --secret-file secret > challenge.json`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := secret.read()
			if err != nil {
				return err
			}
			if longest := evidence.ChallengeTokenKind().MaxLifetime.Milliseconds(); ttl < 1000 || ttl > longest {
				return cli.Usagef("--ttl-ms is %d, not between 1000 and %d", ttl, longest)
			}
			issuer, err := cliChallenges(s, difficulty, time.Duration(ttl)*time.Millisecond, tasks)
			if err != nil {
				return cli.Usagef("--difficulty or --task-count: %v", err)
			}
			var b evidence.Binding
			if binding.given() {
				if b, err = binding.read(); err != nil {
					return err
				}
			}
			ch, err := issuer.Create(c.Context(), b)
			if err != nil {
				return err
			}
			return cli.PrintJSON(c, pretty, ch)
		},
	}
	secret.add(c)
	binding.add(c)
	c.Flags().StringVar(&difficulty, "difficulty", "standard", "lite, standard or gauntlet")
	c.Flags().Int64Var(&ttl, "ttl-ms", 30_000, "lifetime in milliseconds")
	c.Flags().IntVar(&tasks, "task-count", 0, "number of tasks; 0 takes the difficulty's own")
	c.Flags().BoolVar(&pretty, "pretty", false, "indent the output")
	return c
}

func cliChallenges(s evidence.Secret, difficulty string, lifetime time.Duration, tasks int) (*challenge.Issuer, error) {
	return challenge.NewIssuer(s, challenge.Options{
		Issuer: cliIssuer, Audience: cliIssuer, Lifetime: lifetime, Difficulty: challenge.Difficulty(difficulty),
		Tasks: tasks, Now: time.Now,
	})
}

func challengeSolve() *cobra.Command {
	var file string
	var pretty bool
	c := &cobra.Command{
		Use: "solve --challenge FILE", Short: "Solve a challenge's public tasks", Args: cli.NoArgs,
		Example: `  mediator challenge solve --challenge challenge.json > response.json`,
		RunE: func(c *cobra.Command, _ []string) error {
			raw, err := cli.ReadInput(c, file)
			if err != nil {
				return err
			}
			ch, err := challenge.ParseChallenge(raw)
			if err != nil {
				return err
			}
			answers, err := challenge.Solve(c.Context(), ch.Tasks)
			if err != nil {
				return err
			}
			return cli.PrintJSON(c, pretty, evidence.Response{ChallengeID: ch.ID, Answers: answers})
		},
	}
	c.Flags().StringVar(&file, "challenge", "", "the challenge file, or - for standard input (required)")
	c.Flags().BoolVar(&pretty, "pretty", false, "indent the output")
	cli.Required(c, "challenge")
	return c
}
