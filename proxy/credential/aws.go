package credential

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/smithy-go/aws-http-auth/credentials"
	"github.com/aws/smithy-go/aws-http-auth/sigv4"
	"github.com/aws/smithy-go/aws-http-auth/sigv4a"
	"github.com/aws/smithy-go/aws-http-auth/v4"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/echo"
)

// AWSOptions configure the form [AWS].
type AWSOptions struct {
	// Service is the signing name, such as s3.
	Service string
	// Regions are those for which requests are signed: one, by Signature Version 4; or several or "*", by Version 4A.
	Regions []string
	// Now is the time of a signature.
	Now func() time.Time
}

type aws struct {
	AWSOptions
	asymmetric bool // Version 4A
	isS3       bool
}

// AWS is the form of an access key (the value's ID and Secret, and the Session of a temporary one) that signs requests
// by AWS Signature Version 4 or 4A. A signature covers method, host, path, query, Content-Type, X-Amz- headers and the
// body.
func AWS(o AWSOptions) (Form, error) {
	a := aws{AWSOptions: o, asymmetric: len(o.Regions) > 1 || slices.Contains(o.Regions, "*"),
		isS3: o.Service == "s3" || strings.HasPrefix(o.Service, "s3-") || strings.HasPrefix(o.Service, "s3express")}
	for _, name := range append([]string{o.Service}, o.Regions...) {
		if name != "*" && (name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-*") != "") {
			return nil, fmt.Errorf("%q is not a service or region such as s3 or eu-central-1: lower case, digits and "+
				"hyphens", name)
		}
	}
	if len(o.Regions) == 0 || o.Service == "*" || o.Now == nil {
		return nil, errors.New("needs a service and at least one region")
	}
	return a, nil
}

func (aws) Find(v Value) (*echo.Secret, error) {
	if v.ID == "" || strings.ContainsAny(v.ID, "/, =") {
		return nil, errors.New("its access key id is missing, or has a space, comma, slash or equals sign")
	}
	return secretsOf(v)
}

func secretsOf(v Value, more ...string) (*echo.Secret, error) {
	if v.Session != "" {
		more = append(more, v.Session)
	}
	return echo.All(append(more, v.Secret)...)
}

func (a aws) Bound(v Value) string { return public("aws "+a.Service, v) }

func (aws) Takes(name string) bool {
	return slices.Contains([]string{"X-Amz-Date", "X-Amz-Content-Sha256", "X-Amz-Security-Token", "X-Amz-Region-Set"},
		name)
}

// IsSigned selects the headers that a signature covers. Others may be changed on their way, or sent differently.
func (aws) IsSigned(name string) bool {
	return name == "host" || name == "content-type" || strings.HasPrefix(name, "x-amz-")
}

// check refuses a body that the agent's SDK has cut into signed chunks: it cannot be signed again.
func (aws) check(h http.Header) error {
	if strings.Contains(strings.ToLower(strings.Join(h["Content-Encoding"], ",")), "aws-chunked") {
		return refusal.New("request_malformed",
			"the body is in chunks (Content-Encoding: aws-chunked), which cannot be "+
				"signed again: set AWS_REQUEST_CHECKSUM_CALCULATION=when_required for the agent")
	}
	return nil
}

// findSent returns the search for v and the signature of a sent request, by which the request could be sent again.
func (aws) findSent(sent *http.Request, v Value) (*echo.Secret, error) {
	_, signature, _ := strings.Cut(sent.Header.Get("Authorization"), "Signature=")
	return secretsOf(v, signature)
}

// refused reports whether an answer may say that a key is not valid (any more). AWS has no status for that alone.
func (aws) refused(v Value, status int) bool {
	return v.End.IsZero() && (status == http.StatusBadRequest || status == http.StatusForbidden)
}

// Apply signs r with the hash of the whole body.
func (a aws) Apply(r *http.Request, v Value, body []byte) error {
	sum := sha256.Sum256(body)
	out, u := *r, *r.URL
	out.URL = &u // S3 compares the path in one spelling only
	options := func(o *v4.SignerOptions) {
		o.HeaderRules = a
		if a.isS3 {
			o.DisableDoublePathEscape, o.AddPayloadHashHeader = true, true
			u.RawPath = awsPath(u.Path)
		}
	}
	key := credentials.Credentials{AccessKeyID: v.ID, SecretAccessKey: v.Secret, SessionToken: v.Session}
	var err error
	if a.asymmetric {
		// A signer keeps the key that it derived by the access key's id alone, so each call has its own.
		err = sigv4a.New(options).SignRequest(&sigv4a.SignRequestInput{Request: &out, PayloadHash: sum[:],
			Credentials: key,
			Service:     a.Service, RegionSet: a.Regions, Time: a.Now()})
	} else {
		err = sigv4.New(options).SignRequest(&sigv4.SignRequestInput{Request: &out, PayloadHash: sum[:],
			Credentials: key,
			Service:     a.Service, Region: a.Regions[0], Time: a.Now()})
	}
	r.Header.Del("Host") // the signer's; net/http takes it from r.Host
	if err != nil {
		return refusal.New("custody_unavailable", "the call cannot be signed with the rule's access key")
	}
	return nil
}

// awsPath escapes all but the unreserved characters of RFC 3986 and slashes.
func awsPath(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// ParseAWSFile reads an access key from AWS's shared credentials file. It must have one profile only.
func ParseAWSFile(text string) (v Value, err error) {
	at := map[string]*string{"aws_access_key_id": &v.ID, "aws_secret_access_key": &v.Secret,
		"aws_session_token": &v.Session}
	profiles := 0
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		name, value, assigns := strings.Cut(line, "=")
		to := at[strings.ToLower(strings.TrimSpace(name))]
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			profiles++
		case !assigns || to == nil || *to != "":
			return Value{}, errors.New("not a shared credentials file: its lines must be a profile, aws_access_key_id, " +
				"aws_secret_access_key and aws_session_token, each once")
		default:
			*to = strings.TrimSpace(value)
		}
	}
	if profiles != 1 || v.ID == "" || v.Secret == "" {
		return Value{}, errors.New("not a shared credentials file with exactly one profile, which must have " +
			"aws_access_key_id and " +
			"aws_secret_access_key")
	}
	return v, nil
}
