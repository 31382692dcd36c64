package credential_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/test/check"
)

var awsKey = credential.Value{ID: "AKIDEXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}

func awsForm(t *testing.T, service string, at time.Time, regions ...string) credential.Form {
	t.Helper()
	form, err := credential.AWS(credential.AWSOptions{Service: service, Regions: regions,
		Now: func() time.Time { return at }})
	check.Must(t, err)
	return form
}

// TestAWSSuite signs the requests of AWS's own test suite. Signatures of version 4A are random, so they are verified
// with the suite's public key.
func TestAWSSuite(t *testing.T) {
	raw, err := os.ReadFile("testdata/aws-signing-test-suite.json")
	check.Must(t, err)
	var suite struct {
		PublicKey struct{ X, Y string }
		Cases     []struct{ Version, Name, Token, Request, Canonical, Authorization string }
	}
	check.Must(t, json.Unmarshal(raw, &suite))
	point, err := hex.DecodeString("04" + suite.PublicKey.X + suite.PublicKey.Y)
	check.Must(t, err)
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	check.Must(t, err)
	at := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	for _, tt := range suite.Cases {
		t.Run(tt.Version+" "+tt.Name, func(t *testing.T) {
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(tt.Request)))
			check.Must(t, err)
			v := awsKey
			v.Session = tt.Token
			regions := []string{"us-east-1"}
			if tt.Version == "v4" {
				check.Must(t, use(t, awsForm(t, "service", at, regions...), nil, v).Apply(r, nil))
				if got := r.Header.Get("Authorization"); got != tt.Authorization {
					t.Errorf("got  %s\nwant %s", got, tt.Authorization)
				}
				return
			}
			// One region is signed by version 4, so the suite's region set stands in for two equal ones.
			check.Must(t, use(t, awsForm(t, "service", at, "us-east-1", "us-east-1"), nil, v).Apply(r, nil))
			canonical := strings.Replace(tt.Canonical, "x-amz-region-set:us-east-1",
				"x-amz-region-set:us-east-1,us-east-1", 1)
			sum := sha256.Sum256([]byte(canonical))
			toSign := sha256.Sum256([]byte("AWS4-ECDSA-P256-SHA256\n20150830T123600Z\n20150830/service/aws4_request\n" +
				hex.EncodeToString(sum[:])))
			_, signature, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
			der, err := hex.DecodeString(signature)
			check.Must(t, err)
			if !ecdsa.VerifyASN1(public, toSign[:], der) {
				t.Errorf("the suite's key does not verify %s", r.Header.Get("Authorization"))
			}
		})
	}
	if len(suite.Cases) < 30 {
		t.Errorf("the suite has %d cases", len(suite.Cases))
	}
}

// s3 verifies requests by the published algorithm, as S3 does: what it got, in its own canonical form.
type s3 struct {
	session string
	now     func() time.Time
	got     int
}

func (s *s3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
	if code := s.judge(r, body); code != "" {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code></Error>")
		return
	}
	s.got++
	w.WriteHeader(http.StatusCreated)
}

func (s *s3) judge(r *http.Request, body []byte) string {
	h := r.Header
	at, err := time.Parse("20060102T150405Z", h.Get("X-Amz-Date"))
	if skew := s.now().Sub(at); err != nil || skew.Abs() >= 5*time.Minute {
		return "RequestTimeTooSkewed"
	}
	sum := sha256.Sum256(body)
	if h.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]) {
		return "XAmzContentSHA256Mismatch"
	}
	if h.Get("X-Amz-Security-Token") != s.session {
		return "InvalidToken"
	}
	scope := at.Format("20060102") + "/eu-central-1/s3/aws4_request"
	_, rest, _ := strings.Cut(h.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="+awsKey.ID+"/"+scope+", SignedHeaders=")
	signed, signature, _ := strings.Cut(rest, ", Signature=")
	var canonical strings.Builder
	canonical.WriteString(r.Method + "\n" + strings.NewReplacer("(", "%28", ")", "%29").Replace(r.URL.EscapedPath()) + "\n" +
		strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20") + "\n")
	for name := range strings.SplitSeq(signed, ";") {
		value := strings.Join(h.Values(name), ",")
		if name == "host" {
			value = r.Host
		}
		canonical.WriteString(name + ":" + value + "\n")
	}
	canonical.WriteString("\n" + signed + "\n" + hex.EncodeToString(sum[:]))
	whole := sha256.Sum256([]byte(canonical.String()))
	key := []byte("AWS4" + awsKey.Secret)
	for _, text := range append(strings.Split(scope, "/"),
		"AWS4-HMAC-SHA256\n"+h.Get("X-Amz-Date")+"\n"+scope+"\n"+hex.EncodeToString(whole[:])) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		key = mac.Sum(nil)
	}
	if hex.EncodeToString(key) != signature {
		return "SignatureDoesNotMatch"
	}
	return ""
}

func TestAWSPut(t *testing.T) {
	now := time.Now()
	api := &s3{session: "a-session-token-of-sts", now: func() time.Time { return now }}
	server := httptest.NewTLSServer(api)
	defer server.Close()
	v := awsKey
	v.Session = api.session
	u := use(t, awsForm(t, "s3", now, "eu-central-1"), nil, v)
	for _, tt := range []struct {
		name, method, path, body string
		change                   func(*http.Request)
		want                     int
	}{
		{"a put", "PUT", "/bucket/a%20file%28(1).txt?x=b%20c&a", "content", nil, 201},
		{"without a body", "DELETE", "/bucket/key", "", nil, 201},
		{"the agent's own signature is replaced", "PUT", "/bucket/key", "content", func(r *http.Request) {
			r.Header = http.Header{"Authorization": {"AWS4-HMAC-SHA256 mine"}, "X-Amz-Date": {"20150830T123600Z"},
				"X-Amz-Security-Token": {"mine"}, "X-Amz-Content-Sha256": {"UNSIGNED-PAYLOAD"},
				"X-Amz-Meta-A": {"1"}, "Content-Type": {"text/plain"}, "X-Other": {"1"}}
		}, 201},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequest(tt.method, server.URL+tt.path, strings.NewReader(tt.body))
			check.Must(t, err)
			if tt.change != nil {
				tt.change(r)
			}
			check.Must(t, u.Apply(r, []byte(tt.body)))
			resp, err := server.Client().Do(r)
			check.Must(t, err)
			defer resp.Body.Close()
			if said, _ := io.ReadAll(resp.Body); resp.StatusCode != tt.want {
				t.Errorf("status %d: %s", resp.StatusCode, said)
			}
		})
	}
	t.Run("changed after signing", func(t *testing.T) {
		r, err := http.NewRequest("PUT", server.URL+"/bucket/key", bytes.NewReader([]byte("other")))
		check.Must(t, err)
		check.Must(t, u.Apply(r, []byte("content")))
		resp, err := server.Client().Do(r)
		check.Must(t, err)
		defer resp.Body.Close()
		if said, _ := io.ReadAll(resp.Body); !strings.Contains(string(said), "XAmzContentSHA256Mismatch") {
			t.Errorf("the server says %s", said)
		}
	})
	t.Run("an answer with the signature", func(t *testing.T) {
		r, err := http.NewRequest("GET", server.URL+"/bucket/key", nil)
		check.Must(t, err)
		check.Must(t, u.Apply(r, nil))
		_, signature, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
		for _, secret := range []string{signature, v.Secret, v.Session} {
			resp := &http.Response{StatusCode: 403, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(
				"<SignatureProvided>" + secret + "</SignatureProvided>"))}
			check.Must(t, u.Answered(r, resp))
			_, err := io.ReadAll(resp.Body)
			check.WantCode(t, err, "answer_withheld")
		}
	})
}

// TestAWSFileIsReread replaces a temporary key that AWS refuses, which it says by 403 or 400.
func TestAWSFileIsReread(t *testing.T) {
	path := secretFile(t, "[a]\naws_access_key_id = OLD\naws_secret_access_key = the-old-secret")
	source, err := credential.File(path, credential.ParseAWSFile)
	check.Must(t, err)
	c, err := credential.New(source, awsForm(t, "s3", time.Now(), "eu-central-1"))
	check.Must(t, err)
	check.Must(t, os.WriteFile(path, []byte("[a]\naws_access_key_id = NEW\naws_secret_access_key = the-new-secret"),
		0o600))
	for _, tt := range []struct {
		status int
		want   string
	}{{200, "OLD"}, {404, "OLD"}, {403, "OLD"}, {200, "NEW"}} {
		u, err := c.Resolve(t.Context(), nil)
		check.Must(t, err)
		r, err := http.NewRequest("GET", "https://a.example/", nil)
		check.Must(t, err)
		check.Must(t, u.Apply(r, nil))
		if got := r.Header.Get("Authorization"); !strings.Contains(got, "Credential="+tt.want+"/") {
			t.Errorf("before a %d: %s", tt.status, got)
		}
		check.Must(t, u.Answered(r, &http.Response{StatusCode: tt.status, Header: http.Header{}, Body: http.NoBody}))
	}
}

func TestAWSFile(t *testing.T) {
	const good = "# ours\n[default]\naws_access_key_id = AKID\naws_secret_access_key=a+secret/key\n\nAWS_SESSION_TOKEN = t\n"
	v, err := credential.ParseAWSFile(good)
	if err != nil || v != (credential.Value{ID: "AKID", Secret: "a+secret/key", Session: "t"}) {
		t.Errorf("got %s, %s, %s, %v", v.ID, v.Secret, v.Session, err)
	}
	for name, text := range map[string]string{
		"nothing": "", "no profile": strings.Replace(good, "[default]", "", 1), "two profiles": good + "[other]\n",
		"a key twice": good + "aws_access_key_id = B\n", "no secret": "[default]\naws_access_key_id = A\n",
		"another setting": good + "region = x\n", "no assignment": good + "text\n", "a JSON": `{"AccessKeyId": "a"}`,
	} {
		if _, err := credential.ParseAWSFile(text); err == nil {
			t.Errorf("%s is a credentials file", name)
		}
	}
}

func FuzzAWSFile(f *testing.F) {
	f.Add("[default]\naws_access_key_id = AKID\naws_secret_access_key=a+secret/key\n")
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := credential.ParseAWSFile(text); err == nil && (v.ID == "" || v.Secret == "") {
			t.Errorf("%q has no key", text)
		}
	})
}
