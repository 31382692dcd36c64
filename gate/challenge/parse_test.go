package challenge_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/test/check"
)

func TestParseResponse(t *testing.T) {
	hash := evidence.HashBytes(nil)
	var many []string
	for n := range 33 {
		many = append(many, fmt.Sprintf(`"t%d":"%s"`, n, hash))
	}
	for name, tt := range map[string]struct {
		raw string
		ok  bool
	}{
		"as it should be":          {`{"challengeId":"c","answers":{"t1":"` + hash + `"}}`, true},
		"with white space":         {"\n{ \"answers\" : {\"t1\":\"" + hash + "\"},\t\"challengeId\":\"c\" }\n", true},
		"escapes of equal meaning": {`{"challengeI\u0064":"c","answers":{"t1":"` + hash + `"}}`, true},
		"nothing":                  {``, false},
		"null":                     {`null`, false},
		"a list":                   {`[]`, false},
		"an empty object":          {`{}`, false},
		"no challenge id":          {`{"answers":{"t1":"` + hash + `"}}`, false},
		"an empty challenge id":    {`{"challengeId":"","answers":{"t1":"` + hash + `"}}`, false},
		"no answers":               {`{"challengeId":"c"}`, false},
		"null answers":             {`{"challengeId":"c","answers":null}`, false},
		"empty answers":            {`{"challengeId":"c","answers":{}}`, false},
		"a null answer":            {`{"challengeId":"c","answers":{"t1":null}}`, false},
		"a short answer":           {`{"challengeId":"c","answers":{"t1":"00"}}`, false},
		"a number for an answer":   {`{"challengeId":"c","answers":{"t1":7}}`, false},
		"an unknown member":        {`{"challengeId":"c","answers":{"t1":"` + hash + `"},"note":""}`, false},
		"a member twice":           {`{"challengeId":"c","challengeId":"c","answers":{"t1":"` + hash + `"}}`, false},
		"a member in another case": {`{"ChallengeID":"c","answers":{"t1":"` + hash + `"}}`, false},
		"a member in both cases":   {`{"challengeId":"c","challengeid":"d","answers":{"t1":"` + hash + `"}}`, false},
		"an answer twice":          {`{"challengeId":"c","answers":{"t1":"` + hash + `","t1":"` + hash + `"}}`, false},
		"an answer twice, escaped": {`{"challengeId":"c","answers":{"t1":"` + hash + `","\u00741":"` + hash + `"}}`, false},
		"a lone surrogate":         {`{"challengeId":"\ud800","answers":{"t1":"` + hash + `"}}`, false},
		"invalid UTF-8":            {"{\"challengeId\":\"\xff\",\"answers\":{\"t1\":\"" + hash + "\"}}", false},
		"text after it":            {`{"challengeId":"c","answers":{"t1":"` + hash + `"}}{}`, false},
		"too many answers":         {`{"challengeId":"c","answers":{` + strings.Join(many, ",") + `}}`, false},
		"too large": {`{"challengeId":"c","answers":{"t1":"` + hash + `"}}` + strings.Repeat(" ", 16<<10),
			false},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := challenge.ParseResponse([]byte(tt.raw))
			if !tt.ok {
				wantCode(t, err, "challenge_refused")
				return
			}
			if err != nil || !reflect.DeepEqual(r, evidence.Response{ChallengeID: "c", Answers: map[string]string{"t1": hash}}) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func TestParseChallenge(t *testing.T) {
	i := newIssuer(t, challenge.Options{})
	const task = `{"id":"t","kind":"vm","instructions":"","input":{}}`
	withTasks := func(list string) string {
		return `{"id":"c","difficulty":"lite","instructions":"","tasks":[` + list + `],"token":"t","expiresAt":1}`
	}
	if _, err := challenge.ParseChallenge([]byte(withTasks(task))); err != nil {
		t.Errorf("what the rows below spoil: %v", err)
	}
	for _, ch := range []challenge.Challenge{create(t, i, binding), create(t, i, evidence.Binding{})} {
		raw, err := json.Marshal(ch)
		check.Must(t, err)
		got, err := challenge.ParseChallenge(raw)
		check.Must(t, err)
		if !reflect.DeepEqual(ch, got) {
			t.Errorf("%+v was read as %+v", ch, got)
		}
		for name, spoilt := range map[string]string{
			"nothing":                "",
			"null":                   "null",
			"cut off":                string(raw[:len(raw)-1]),
			"text after it":          string(raw) + "x",
			"an unknown member":      strings.Replace(string(raw), `{"id"`, `{"answers":{},"id"`, 1),
			"a member twice":         strings.Replace(string(raw), `{"id"`, `{"id":"x","id"`, 1),
			"a member in upper case": strings.Replace(string(raw), `{"id"`, `{"ID"`, 1),
			"an unknown task member": strings.Replace(string(raw), `"input":{`, `"inputs":{`, 1),
			"a task without input":   withTasks(`{"id":"t","kind":"vm","instructions":""}`),
			"a task without id":      withTasks(`{"kind":"vm","instructions":"","input":{}}`),
			"a task without kind":    withTasks(`{"id":"t","instructions":"","input":{}}`),
			"no token":               strings.Replace(string(raw), ch.Token, "", 1),
			"no id":                  strings.Replace(string(raw), ch.ID, "", 1),
			"no tasks":               withTasks(""),
			"a task too many":        withTasks(strings.Repeat(task+",", 32) + task),
			"too large":              string(raw) + strings.Repeat(" ", 256<<10),
		} {
			t.Run(name, func(t *testing.T) {
				_, err := challenge.ParseChallenge([]byte(spoilt))
				wantCode(t, err, "challenge_refused")
			})
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	_, err := challenge.ParseChallenge([]byte(`{"id":1}`))
	if wantCode(t, err, "challenge_refused"); !strings.Contains(err.Error(), "id must be a text") {
		t.Error(err)
	}
	_, err = challenge.ParseResponse([]byte(`{"challengeId":1}`))
	if wantCode(t, err, "challenge_refused"); !strings.Contains(err.Error(), "challengeId must be a text") {
		t.Error(err)
	}
}
