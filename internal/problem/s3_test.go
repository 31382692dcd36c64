package problem_test

import (
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
)

func TestAnswerToS3(t *testing.T) {
	for signed, want := range map[string]string{
		"AWS4-HMAC-SHA256 Credential=A/20260301/eu-central-1/s3/aws4_request, Signature=0":      "application/xml",
		"AWS4-ECDSA-P256-SHA256 Credential=A/20260301/s3/aws4_request, Signature=0":             "application/xml",
		"AWS4-HMAC-SHA256 Credential=A/20260301/eu-central-1/dynamodb/aws4_request, Signature=": problem.ContentType,
		"Bearer /s3/aws4_request": problem.ContentType,
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "https://b.s3.amazonaws.com/k", http.NoBody)
		r.Header.Set("Authorization", signed)
		problem.Details{Status: http.StatusForbidden, Code: "policy_denied", Detail: "a < b", Remedy: "Ask."}.Answer(w, r)
		if w.Code != http.StatusForbidden || w.Header().Get("Content-Type") != want {
			t.Errorf("%s: %d %v", signed, w.Code, w.Header())
		}
		var got struct {
			XMLName       xml.Name `xml:"Error"`
			Code, Message string
		}
		if err := xml.Unmarshal(w.Body.Bytes(), &got); want == "application/xml" && (err != nil ||
			got.Code != "policy_denied" || !strings.Contains(got.Message, "a < b. What to do: Ask.")) {
			t.Errorf("%s: %v\n%s", signed, err, w.Body)
		}
	}
}
