package kube_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/internal/kube"
	"github.com/actionproof/mediator/test/check"
)

// serve returns a client for an API server of one handler, and the file of its token.
func serve(t *testing.T, h http.HandlerFunc) (*kube.Client, string) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	ca, token := filepath.Join(t.TempDir(), "ca"), filepath.Join(t.TempDir(), "token")
	check.Must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600),
		os.WriteFile(token, []byte("first"), 0o600))
	c, err := kube.New(kube.Options{Server: s.URL, CAFile: ca, TokenFile: token})
	check.Must(t, err)
	return c, token
}

func TestRequests(t *testing.T) {
	var got []string
	c, token := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body any
		_ = json.NewDecoder(r.Body).Decode(&body)
		raw, _ := json.Marshal(body)
		got = append(got, fmt.Sprintf("%s %s %s %s %s", r.Header.Get("Authorization"), r.Method, r.URL, r.Header.Get(
			"Content-Type"), raw))
		if strings.HasSuffix(r.URL.Path, "/gone") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","reason":"NotFound","message":"no such pod","code":404}`))
			return
		}
		_, _ = w.Write([]byte(`{"metadata":{"name":"p","uid":"u"}}`))
	})
	p, err := c.Pod(t.Context(), "ns", "p")
	if check.Must(t, err); p.Meta.UID != "u" {
		t.Errorf("%+v", p)
	}
	check.Must(t, os.WriteFile(token, []byte("second\n"), 0o600)) // tokens rotate
	check.Must(t, c.ApplyTrustBundle(t.Context(), "a:b:c", "a/b", "PEM"),
		c.Answer(t.Context(), kube.CertificateRequest{Meta: kube.Meta{Name: "r", Namespace: "ns", UID: "u",
			ResourceVersion: "7"}}, kube.Answer{CertificateChain: "PEM"}))
	_, err = c.Pod(t.Context(), "ns", "gone")
	var status *kube.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusNotFound || !strings.Contains(err.Error(), "no such pod") {
		t.Errorf("%v", err)
	}
	check.WantEqual(t, got, []string{
		"Bearer first GET /api/v1/namespaces/ns/pods/p  null",
		"Bearer second PATCH /apis/certificates.k8s.io/v1/clustertrustbundles/a:b:c?fieldManager=mediator-registrar&" +
			`force=true application/apply-patch+yaml {"apiVersion":"certificates.k8s.io/v1","kind":"ClusterTrustBundle",` +
			`"metadata":{"name":"a:b:c"},"spec":{"signerName":"a/b","trustBundle":"PEM"}}`,
		"Bearer second PATCH /apis/certificates.k8s.io/v1/namespaces/ns/podcertificaterequests/r/status " +
			`application/merge-patch+json {"metadata":{"resourceVersion":"7","uid":"u"},"status":{"certificateChain":"PEM",` +
			`"conditions":null}}`,
		"Bearer second GET /api/v1/namespaces/ns/pods/gone  null",
	})
}

// TestWatch: pages, changes, bookmarks, a broken connection, and a version that the server has forgotten.
func TestWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	object := func(name, version string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":%q}}`, name, version)
	}
	steps := map[string]string{
		"limit=500":     `{"metadata":{"resourceVersion":"1","continue":"more"},"items":[` + object("a", "1") + `]}`,
		"continue=more": `{"metadata":{"resourceVersion":"1"},"items":[` + object("b", "1") + `]}`,
		"resourceVersion=1": `{"type":"ADDED","object":` + object("c", "2") + "}\n" + `{"type":"BOOKMARK","object":` +
			object("", "5") + "}\n",
		"resourceVersion=5":    `{"type":"DELETED","object":` + object("a", "6") + "}\n" + `{"type":"MOD`, // breaks off
		"resourceVersion=6":    `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}` + "\n",
		"limit=500 once again": `{"metadata":{"resourceVersion":"9"},"items":[]}`,
		"resourceVersion=9":    `{"type":"MODIFIED","object":` + object("d", "10") + "}\n",
	}
	lists := 0
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		key := "resourceVersion=" + q.Get("resourceVersion")
		switch {
		case q.Get("continue") != "":
			key = "continue=" + q.Get("continue")
		case q.Get("watch") == "":
			key = "limit=" + q.Get("limit")
			if lists++; lists > 1 {
				key += " once again"
			}
		}
		if q.Get("fieldSelector") != "spec.signerName=x" || key == "resourceVersion=10" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte(steps[key]))
	})
	var mu sync.Mutex
	var seen []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf(format, args...))
		if strings.Contains(seen[len(seen)-1], "answered 403") {
			cancel()
		}
	}
	kube.Watch(ctx, c, "/pods", "spec.signerName=x", kube.Observer[kube.Pod]{
		Listed:  func(all []kube.Pod) { note("listed %d", len(all)) },
		Changed: func(p kube.Pod) { note("changed %s", p.Meta.Name) },
		Deleted: func(p kube.Pod) { note("deleted %s", p.Meta.Name) },
		Failed:  func(err error) { note("failed %v", err) },
	})
	seen = slices.DeleteFunc(seen, func(s string) bool { return strings.Contains(s, "cannot be read") })
	check.WantEqual(t, seen, []string{"listed 2", "changed c", "deleted a", "listed 0", "changed d",
		"failed the API server answered 403 to GET /pods: "})
}

// TestLarge: pods as large as etcd takes them hide no others.
func TestLarge(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pod := func(name string, size int) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"1"}%s}`, name, strings.Repeat(" ", size))
	}
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		page := `{"metadata":{"resourceVersion":"1","continue":%q},"items":[` + pod(q.Get("continue"), 9<<20) + `]}`
		switch {
		case q.Get("watch") != "":
			page = `{"type":"ADDED","object":` + pod("c", 9<<20) + "}\n"
		case q.Get("limit") != "1":
			page = strings.Repeat(" ", 17<<20)
		case q.Get("continue") == "":
			page = fmt.Sprintf(page, "b")
		default:
			page = fmt.Sprintf(page, "")
		}
		_, _ = w.Write([]byte(page))
	})
	var seen []string
	kube.Watch(ctx, c, "/pods", "", kube.Observer[kube.Pod]{
		Listed:  func(all []kube.Pod) { seen = append(seen, fmt.Sprint(len(all))) },
		Changed: func(p kube.Pod) { seen = append(seen, p.Meta.Name); cancel() },
		Failed:  func(err error) { seen = append(seen, err.Error()); cancel() },
	})
	check.WantEqual(t, seen, []string{"2", "c"})
}

func TestHolders(t *testing.T) {
	var p kube.Pod
	check.Must(t, json.Unmarshal([]byte(`{"spec":{
		"volumes":[{"name":"id","projected":{"sources":[{"podCertificate":{"signerName":"ours"}}]}},
			{"name":"theirs","projected":{"sources":[{"podCertificate":{"signerName":"theirs"}},{"secret":{}}]}},{"name":"tmp"}],
		"initContainers":[{"name":"sidecar","image":"m@sha256:1","volumeMounts":[{"name":"tmp"},{"name":"id"}]}],
		"containers":[{"name":"agent","image":"a:latest","volumeMounts":[{"name":"theirs"}]}],
		"ephemeralContainers":[{"name":"shell","image":"s:1","volumeMounts":[{"name":"id"}]}]},
		"status":{"initContainerStatuses":[{"name":"sidecar","imageID":"r/m@sha256:2"}],
			"containerStatuses":[{"name":"agent","imageID":"a@sha256:3"}]}}`), &p))
	images, running := p.Holders("ours", "")
	check.WantEqual(t, images, []string{"m@sha256:1", "s:1"})
	check.WantEqual(t, running, []string{"r/m@sha256:2"})
}
