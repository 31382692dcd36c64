{{- define "mediator.sidecar" -}}
# Without runtime: each pod's name stands in its certificate, so the manifest pins one file for all.
{{ include "mediator.process" (list . "sidecar") }}
listen: 127.0.0.1:8181
{{- if eq .Values.sidecar.enforcement "guard" }}
transparent: {listen: "127.0.0.1:8183"}
guard: {uids: [10001], resolvers: {{ .Values.sidecar.resolvers | toJson }}, inbound: [9090]}
{{- end }}
{{- if eq .Values.sidecar.enforcement "pod" }}
{{- $callers := list }}{{ range include "mediator.namespaces" . | fromJsonArray }}{{ $callers = append $callers (printf "spiffe://%s/agent/%s/*" $.Values.trustDomain .) }}{{ end }}
agents: {tcp: "0.0.0.0:8444", callers: {{ $callers | toJson }}}
{{- end }}
admin: {unix: /run/mediator/admin/admin.sock}
state: /var/lib/mediator/state
{{- if eq .Values.storage.type "postgres" }}
ledger: {postgres: {dsnFile: database/dsn}}
{{- end }}
ca: {certificateFile: /run/mediator/ca/ca.pem}
keys:
  runtime: {key: runtime-key, issuer: mediator-runtime}
  session: {key: session-key, issuer: mediator-session-controller}
  requestProof: {key: request-proof-key, issuer: mediator-request-mediator}
  {{- if .Values.sidecar.config.receipts }}
  interactionReceipt: {key: interaction-receipt-key, issuer: mediator-observer}
  {{- end }}
audience: {{ .Values.audience }}
manifest: /var/lib/mediator/trust/manifest.yaml
trigger: {tcp: {{ printf "%s:8443" (include "mediator.host" (list . "trigger")) | quote }}}
control: {tcp: {{ printf "%s:8443" (include "mediator.host" (list . "control")) | quote }}}
{{- if .Values.node.enabled }}
reputation: {tcp: {{ printf "%s:8443" (include "mediator.host" (list . "node")) | quote }}, audience: mediator-reputation}
{{- end }}
session: {standing: true}
{{- with .Values.auditExport }}
{{- if .endpoint }}
auditExport: {otlp: { {{- include "mediator.collector" (list . "audit") }}}, format: {{ .format }}}
{{- end }}
{{- end }}
{{ with .Values.sidecar.config }}{{ toYaml . }}{{ end }}
{{- end -}}

{{- define "mediator.callers" -}}
internal: {tcp: "0.0.0.0:8443", callers: [{{ printf "spiffe://%s/pod/*/*" .Values.trustDomain | quote }}]}
{{- end -}}

{{- define "mediator.trigger" -}}
{{ include "mediator.process" (list . "trigger") }}
listen: 0.0.0.0:8080
{{ include "mediator.callers" . }}
state: /var/lib/mediator/state
{{- if eq .Values.storage.type "postgres" }}
store: {postgres: {dsnFile: database/dsn}}
eventSecretFile: database/event-secret
{{- end }}
keys:
  origin: {key: origin-proof-key, issuer: mediator-source-verifier, audience: mediator-trigger}
  receipt: {key: trigger-receipt-key, issuer: mediator-trigger, audience: mediator-runtime}
{{ with .Values.trigger.config }}{{ toYaml . }}{{ end }}
{{- end -}}

{{- define "mediator.control" -}}
{{ include "mediator.process" (list . "control") }}
{{ include "mediator.callers" . }}
keys:
  decision: {key: policy-decision-key, issuer: mediator-policy}
  grant: {key: action-grant-key, issuer: mediator-authorization}
audience: {{ .Values.audience }}
manifest: /var/lib/mediator/trust/manifest.yaml
policy: policy.yaml
{{- end -}}

{{- define "mediator.node" -}}
{{ include "mediator.process" (list . "node") }}
{{ include "mediator.callers" . }}
state: /var/lib/mediator/state
{{- if eq .Values.storage.type "postgres" }}
store: {postgres: {dsnFile: database/dsn}}
{{- end }}
keys:
  appraiser: {key: appraiser-key, issuer: mediator-appraiser, audience: {{ .Values.audience }}, lifetime: 10m}
audience: mediator-reputation
{{- if not .Values.node.config.owners }}
owners:
  - name: {{ .Values.deployment }}
    registry: roots/registry.jwk
    bundle: /var/lib/mediator/trust/trust.json
    certificates: {issuers: [key-registry], audiences: [{{ .Values.audience }}]}
    receipts: {issuers: [mediator-observer], audiences: [{{ .Values.audience }}], keys: [interaction-receipt-key{{ ternary "/*" "" (eq .Values.custody.type "memory") }}]}
{{- end }}
{{ with .Values.node.config }}{{ toYaml . }}{{ end }}
{{- end -}}

{{- define "mediator.registrar" -}}
internal: {unix: /run/mediator/registrar.sock}
listen: 0.0.0.0:8443
probes: {listen: "0.0.0.0:9090"}
state: /var/lib/mediator/state
{{- if .Values.trial }}
trial: true
rules: rules.yaml
trust:
  registry: /var/lib/mediator/state/registry.jwk
  auditor: /var/lib/mediator/state/auditor.jwk
{{- else }}
rules: rules.json
registryKey: registry-key.yaml
trust:
  registry: roots/registry.jwk
  auditor: roots/auditor.jwk
{{- end }}
  bundle: /var/lib/mediator/state/trust.json
{{- if and (eq .Values.storage.type "postgres") (not .Values.trial) }}
postgres: {dsnFile: database/dsn}
{{- end }}
custody:
{{- include "mediator.custody" . | nindent 2 }}
kubernetes:
  trustDomain: {{ .Values.trustDomain }}
  dnsNames: [{{ include "mediator.host" (list . "registrar") }}]
  {{- if eq .Values.identity "token" }}
  tokens: true
  configMap: {{ include "mediator.authorities" . }}
  {{- else if .Values.trial }}
  configMap: {{ .Release.Name }}-roots
  {{- end }}
{{- end -}}

{{- define "mediator.rules" -}}
{{- $root := . -}}
{{- $digests := concat (list .Values.image.digest) .Values.image.alsoDigests | toJson -}}
serial: {{ .Values.rules.serial }}
rules:
{{- range $component := list "trigger" "control" "node" }}
{{- if or (ne $component "node") $root.Values.node.enabled }}
  - {role: {{ $component }}, namespace: {{ $root.Release.Namespace }}, serviceAccount: {{ $root.Release.Name }}-{{ $component }}, imageDigests: {{ $digests }}, dnsNames: [{{ include "mediator.host" (list $root $component) }}]}
{{- end }}
{{- end }}
{{- if eq .Values.sidecar.enforcement "pod" }}
  - {role: sidecar, namespace: {{ .Release.Namespace }}, serviceAccount: {{ .Release.Name }}-proxy, imageDigests: {{ $digests }}, dnsNames: [{{ include "mediator.host" (list . "proxy") }}]}
{{- end }}
{{- range .Values.rules.agents }}
  - {role: {{ ternary "agent" "sidecar" (eq $root.Values.sidecar.enforcement "pod") }}, namespace: {{ .namespace }}, serviceAccount: {{ .serviceAccount }}, imageDigests: {{ $digests }}}
{{- end }}
{{- end -}}
