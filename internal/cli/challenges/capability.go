package challenges

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/strictjson"
)

// verdict is what the seed's command line prints: whether the artifact is valid, and if not, why.
type verdict struct {
	OK           bool   `json:"ok"`
	Code         string `json:"code,omitempty"`
	Reason       string `json:"reason,omitempty"`
	ChallengeID  string `json:"challengeId,omitempty"`
	Capability   string `json:"capability,omitempty"`
	CapabilityID string `json:"capabilityId,omitempty"`
	ConsumeKey   string `json:"consumeKey,omitempty"`
	ExpiresAt    int64  `json:"expiresAt,omitempty"`
	// VerificationConsumed is set in the verdict on a good capability.
	VerificationConsumed *bool `json:"verificationConsumed,omitempty"`
}

// print prints v. If err is not nil, the command ends with status 1.
func (v verdict) print(c *cobra.Command, pretty bool, err error) error {
	if err != nil {
		d := problem.DetailsOf(err)
		v = verdict{Code: d.Code, Reason: d.Detail}
	}
	if err := cli.PrintJSON(c, pretty, v); err != nil {
		return err
	}
	if !v.OK {
		return cli.ErrRefused
	}
	return nil
}

// cliCapabilityTTL is the lifetime of capabilities that the command line mints. The seed's example has the same.
const cliCapabilityTTL = 15 * time.Second

func challengeVerify() *cobra.Command {
	var secret secretFlags
	var challengeFile, responseFile string
	var pretty bool
	c := &cobra.Command{
		Use: "verify --challenge FILE --response FILE", Short: "Verify the response to a challenge", Args: cli.NoArgs,
		Example: `  mediator challenge verify --challenge challenge.json --response response.json \
      --secret-file secret > capability.json`,
		Long: `Verifies a response. If the challenge is bound to an action, it mints a capability. The command line keeps
nothing, so the capability says that its verification was not consumed.`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := secret.read()
			if err != nil {
				return err
			}
			if challengeFile == "-" && responseFile == "-" {
				return cli.Usagef("--challenge and --response cannot both be standard input")
			}
			rawChallenge, err := cli.ReadInput(c, challengeFile)
			if err != nil {
				return err
			}
			rawResponse, err := cli.ReadInput(c, responseFile)
			if err != nil {
				return err
			}
			v, err := verifyResponse(c, s, rawChallenge, rawResponse)
			return v.print(c, pretty, err)
		},
	}
	secret.add(c)
	c.Flags().StringVar(&challengeFile, "challenge", "", "the challenge file, or - for standard input (required)")
	c.Flags().StringVar(&responseFile, "response", "", "the response file, or - for standard input (required)")
	c.Flags().BoolVar(&pretty, "pretty", false, "indent the output")
	cli.Required(c, "challenge")
	cli.Required(c, "response")
	return c
}

// Capability returns the commands about capabilities.
func Capability() *cobra.Command {
	return cli.Group("capability", "Capabilities", capabilityVerify())
}

// HashPayload returns the command that prints the content hash of a payload.
func HashPayload() *cobra.Command {
	var canonical bool
	c := &cobra.Command{
		Use: "hash-payload [FILE]", Short: "Print the content hash of a payload, from a file or standard input",
		Long: `Prints the SHA-256 of a payload in lowercase hex: of its bytes, or with --canonical of the RFC 8785 canonical
form of a JSON document, to which a post of JSON is bound. ActionProof's name for --canonical, --json, works too.`,
		Example: `  printf %s '{"title": "hello"}' | mediator hash-payload --canonical`,
		Args:    cli.OneArgAtMost("file"),
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := cli.ReadInput(c, append(args, "-")[0])
			if err != nil {
				return err
			}
			h := evidence.HashBytes(raw)
			if canonical {
				if h, err = evidence.HashJSON(raw); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), h)
			return err
		},
	}
	c.Flags().BoolVar(&canonical, "canonical", false, "the payload is JSON: hash its RFC 8785 canonical form")
	c.Flags().BoolVar(&canonical, "json", false, "ActionProof's name of --canonical")
	if err := c.Flags().MarkHidden("json"); err != nil {
		panic(err) // it is defined a line above
	}
	return c
}

// verifyResponse verifies a response. If the challenge is bound, it also mints the capability.
func verifyResponse(c *cobra.Command, s evidence.Secret, rawChallenge, rawResponse []byte) (verdict, error) {
	ch, err := challenge.ParseChallenge(rawChallenge)
	if err != nil {
		return verdict{}, err
	}
	response, err := challenge.ParseResponse(rawResponse)
	if err != nil {
		return verdict{}, err
	}
	issuer, err := cliChallenges(s, string(challenge.Standard), 0, 0)
	if err != nil {
		return verdict{}, err
	}
	token, err := issuer.Verify(c.Context(), ch, response,
		challenge.Want{MaxAge: evidence.ChallengeTokenKind().MaxLifetime})
	if err != nil {
		return verdict{}, err
	}
	v := verdict{OK: true, ChallengeID: token.ID}
	if token.Binding == nil {
		return v, nil
	}
	registered := evidence.NewRegistered(cliIssuer, cliIssuer, time.Now(), cliCapabilityTTL)
	v.CapabilityID, v.ExpiresAt = registered.ID, registered.Expires
	v.Capability, _, err = challenge.Mint(s, registered,
		evidence.Capability{Binding: *token.Binding, ChallengeID: token.ID})
	return v, err
}

func capabilityVerify() *cobra.Command {
	var secret secretFlags
	var binding bindingFlags
	var file string
	var pretty, consumed bool
	c := &cobra.Command{
		Use: "verify --capability FILE", Short: "Verify a capability against one operation", Args: cli.NoArgs,
		Example: `  hash=$(mediator hash-payload --canonical post.json)
  mediator capability verify --capability capability.json --subject agent:worker-1 --action create_post \
      --resource "POST /posts" --content-hash $hash --secret-file secret`,
		Long: `Verifies what mediator challenge verify has printed. That command keeps nothing, so it cannot consume a
verification: the result says "verificationConsumed": false, and the capability works again until it expires. A gate
refuses such a capability, and so does --require-consumed.`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := secret.read()
			if err != nil {
				return err
			}
			b, err := binding.read()
			if err != nil {
				return err
			}
			capability, err := readCapability(c, file)
			if err != nil {
				return err
			}
			claims, key, err := challenge.VerifyCapability(s, capability, challenge.WantCapability{
				Issuer: cliIssuer, Binding: b, MaxAge: evidence.CapabilityKind().MaxLifetime,
				AllowUnconsumed: !consumed, Now: time.Now(), Skew: evidence.DefaultSkew,
			})
			return verdict{OK: true, ChallengeID: claims.ChallengeID, CapabilityID: claims.ID,
				ConsumeKey: key.Kind + ":" + key.ID, ExpiresAt: claims.Expires,
				VerificationConsumed: &claims.VerificationConsumed}.print(c, pretty, err)
		},
	}
	secret.add(c)
	binding.add(c)
	c.Flags().StringVar(&file, "capability", "",
		"the output of mediator challenge verify, or - for standard input (required)")
	c.Flags().BoolVar(&consumed, "require-consumed", false,
		"refuse a capability whose verification was not consumed, as a gate does")
	c.Flags().BoolVar(&pretty, "pretty", false, "indent the output")
	cli.Required(c, "capability")
	return c
}

// readCapability reads the capability from the output of mediator challenge verify.
func readCapability(c *cobra.Command, file string) (string, error) {
	raw, err := cli.ReadInput(c, file)
	if err != nil {
		return "", err
	}
	var v verdict
	if err := strictjson.Parse(raw, &v); err != nil {
		return "", fmt.Errorf("%s is not the output of mediator challenge verify: %w", file, err)
	}
	if v.Capability == "" {
		return "", fmt.Errorf("%s holds no capability: the response was refused, or its challenge is bound to nothing",
			file)
	}
	return v.Capability, nil
}
