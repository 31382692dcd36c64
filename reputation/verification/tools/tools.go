package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/verification"
)

func malformed(err error) error {
	return refusal.New("query_malformed", "the arguments are malformed: %w", err)
}

type challengeArguments struct {
	Key string `json:"pubkey"`
}

func (t tools) challenge(ctx context.Context, by verification.Caller, a challengeArguments) (any, error) {
	s, err := t.service.Challenge(ctx, by, a.Key)
	if err != nil {
		return nil, err
	}
	type session struct {
		ID                string             `json:"sessionId"`
		Task              verification.Task  `json:"task"`
		Status            verification.State `json:"status"`
		FollowUpPrompt    *string            `json:"followUpPrompt"` // null: asked later
		FollowUpCompleted bool               `json:"followUpCompleted"`
	}
	return struct {
		Success bool    `json:"success"`
		Nonce   string  `json:"nonce"`
		TTL     int64   `json:"ttl"` // milliseconds
		Session session `json:"session"`
	}{true, s.Nonce, verification.NonceLifetime.Milliseconds(), session{ID: s.ID, Task: s.Task, Status: s.State}}, nil
}

type turnArguments struct {
	SessionID string `json:"sessionId"`
	verification.Turn
}

func (t tools) turn(ctx context.Context, by verification.Caller, a turnArguments) (any, error) {
	s, err := t.service.Turn(ctx, by, a.SessionID, a.Turn)
	if err != nil {
		return nil, err
	}
	out := struct {
		Success           bool    `json:"success"`
		SessionID         string  `json:"sessionId"`
		TurnCount         int     `json:"turnCount"`
		FollowUpPrompt    *string `json:"followUpPrompt"` // null without a question
		FollowUpCompleted bool    `json:"followUpCompleted"`
	}{Success: true, SessionID: s.ID, TurnCount: len(s.Turns), FollowUpCompleted: s.Answered.Step > 0}
	if s.FollowUp != nil && s.Answered.Step == 0 {
		out.FollowUpPrompt = &s.FollowUp.Prompt
	}
	return out, nil
}

type registerArguments struct {
	Key       string                `json:"pubkey"`
	Payload   string                `json:"payload"`
	Signature string                `json:"signature"`
	Nonce     string                `json:"challengeNonce"`
	Trace     json.RawMessage       `json:"challengeTrace"`
	Metadata  verification.Metadata `json:"metadata"`
	Manifest  json.RawMessage       `json:"uiManifest"`
}

// gray is the original's status of a rejected registration. Its cooldown is advice; retryAfter is enforced.
type gray struct {
	Status   string `json:"status"`
	Cooldown int64  `json:"cooldown"` // milliseconds
}

const cooldown = 5 * time.Minute

// judged is what a rejection and an acceptance have in common.
type judged struct {
	Score    int64                `json:"score"`
	MaxScore int64                `json:"maxScore"`
	Checks   []verification.Check `json:"checks"`
	Gates    []verification.Gate  `json:"gates"`
	Degraded bool                 `json:"degraded"`
}

type rejection struct {
	failure
	gray
	Record gray `json:"record"` // where clients of the original look
	judged
	Violations []string `json:"violations"`
}

type record struct {
	DID        string                `json:"did"`
	DIDKey     string                `json:"didKey"`
	Key        string                `json:"pubkey"`
	Metadata   verification.Metadata `json:"metadata"`
	Manifest   json.RawMessage       `json:"uiManifest,omitzero"`
	Registered string                `json:"registeredAt"`
}

type acceptance struct {
	Success      bool   `json:"success"`
	DID          string `json:"did"`
	Record       record `json:"record"`
	Verification string `json:"verification"`
	judged
	Warnings []string `json:"warnings,omitempty"`
}

func (t tools) register(ctx context.Context, by verification.Caller, a registerArguments) (any, error) {
	trace, err := parseTrace(a.Trace)
	if err != nil {
		return nil, err
	}
	r, err := t.service.Register(ctx, by, verification.Registration{
		PEM: a.Key, Payload: a.Payload, Signature: a.Signature, Nonce: a.Nonce, Trace: trace, Metadata: a.Metadata,
		Manifest: a.Manifest,
	})
	if err != nil {
		return nil, err
	}
	v := r.Verdict
	common := judged{v.Score, verification.MaxScore, v.Checks, r.Gates, r.Degraded}
	if r.Token == "" {
		rejected := gray{"gray", max(cooldown, r.Wait).Milliseconds()}
		return rejection{
			failure{
				Code: codeFailed, Error: "the verification was judged and rejected", Remedy: problem.Remedy(codeFailed),
				RetryAfter: int((r.Wait + time.Second - 1) / time.Second),
			},
			rejected, rejected, common, v.Violations,
		}, nil
	}
	out := acceptance{
		Success: true, DID: r.Plugin.DID, Record: record{
			DID: r.Plugin.DID, DIDKey: r.Plugin.DIDKey, Key: a.Key, Metadata: r.Plugin.Metadata,
			Registered: r.Plugin.Registered.UTC().Format(time.RFC3339),
		},
		Verification: r.Token, judged: common,
	}
	if r.Plugin.Manifest != "" {
		out.Record.Manifest = json.RawMessage(r.Plugin.Manifest)
	}
	if r.Warned {
		out.Warnings = []string{"enforcement_below_100"}
	}
	return out, nil
}

// parseTrace reads a trace given as an object or as its JSON text.
func parseTrace(raw json.RawMessage) (trace verification.Trace, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte(`"`)) {
		var text string
		if err := strictjson.ParseMembers(raw, &text); err != nil {
			return trace, malformed(err)
		}
		raw = json.RawMessage(text)
		if err := strictjson.Check(raw, maxItems); err != nil {
			return trace, malformed(err)
		}
	}
	if err := strictjson.ParseMembers(raw, &trace); err != nil {
		return trace, malformed(err)
	}
	return trace, nil
}

type searchArguments struct {
	Query     string `json:"query"`
	SessionID string `json:"sessionId"`
}

func (t tools) search(ctx context.Context, by verification.Caller, a searchArguments) (any, error) {
	return t.service.Search(ctx, by, a.SessionID, a.Query)
}

type listArguments struct {
	SessionID string `json:"sessionId"`
}

func (t tools) list(ctx context.Context, by verification.Caller, a listArguments) (any, error) {
	return t.service.List(ctx, by, a.SessionID)
}

type manifestArguments struct {
	DID string `json:"did"`
}

func (t tools) manifest(ctx context.Context, by verification.Caller, a manifestArguments) (any, error) {
	manifest, err := t.service.Manifest(ctx, by, a.DID)
	if err != nil {
		return nil, err
	}
	return struct {
		Success  bool            `json:"success"`
		Manifest json.RawMessage `json:"manifest"`
		Notice   string          `json:"notice"`
	}{true, manifest, verification.Notice}, nil
}
