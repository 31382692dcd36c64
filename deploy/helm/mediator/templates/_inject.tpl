{{- /* A value as a CEL literal, so that a policy's containers and volumes are written in YAML. */ -}}
{{- define "mediator.cel" -}}
{{- if kindIs "map" . -}}
{ {{- $first := true -}}{{- range $key, $value := . -}}{{- if not $first }}, {{ end -}}{{- $first = false -}}
{{ $key | quote }}: dyn({{ include "mediator.cel" $value }}){{- end -}} }
{{- else if kindIs "slice" . -}}
[{{- range $i, $value := . -}}{{- if $i }}, {{ end -}}dyn({{ include "mediator.cel" $value }}){{- end -}}]
{{- else if kindIs "string" . -}}{{ . | quote }}
{{- else if and (kindIs "float64" .) (ne . (floor .)) -}}{{ . }}
{{- else if kindIs "bool" . -}}{{ . }}
{{- else -}}{{ int64 . }}
{{- end -}}
{{- end -}}

{{- define "mediator.agentEnv" -}}
HTTP_PROXY: http://127.0.0.1:8181
HTTPS_PROXY: http://127.0.0.1:8181
http_proxy: http://127.0.0.1:8181
https_proxy: http://127.0.0.1:8181
NO_PROXY: ""
no_proxy: ""
SSL_CERT_FILE: /run/mediator/ca/ca.pem
NODE_EXTRA_CA_CERTS: /run/mediator/ca/ca.pem
REQUESTS_CA_BUNDLE: /run/mediator/ca/ca.pem
CURL_CA_BUNDLE: /run/mediator/ca/ca.pem
GIT_SSL_CAINFO: /run/mediator/ca/ca.pem
{{- end -}}

{{- /* The sidecar, as a container of an agent's pod or, with enforcement pod, of its own. */ -}}
{{- define "mediator.sidecarContainer" -}}
image: {{ include "mediator.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, --config, /etc/mediator/mediator.yaml]
ports:
  - {name: probes, containerPort: 9090, protocol: TCP}
  {{- if eq .Values.sidecar.enforcement "pod" }}
  - {name: agents, containerPort: 8444, protocol: TCP}
  {{- end }}
# The agent starts once the sidecar is ready and nothing that it sees contradicts the manifest.
startupProbe: {httpGet: {path: /readyz, port: probes}, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 150}
livenessProbe: {httpGet: {path: /healthz, port: probes}, periodSeconds: 10, timeoutSeconds: 10, failureThreshold: 6}
readinessProbe: {httpGet: {path: /readyz, port: probes}, periodSeconds: 5, timeoutSeconds: 5}
resources: {{- toYaml .Values.sidecar.resources | nindent 2 }}
securityContext: {{- include "mediator.securityContext" . | nindent 2 }}
volumeMounts:
  - {name: mediator-files, mountPath: /etc/mediator, readOnly: true}
  - {name: mediator-trust, mountPath: /var/lib/mediator/trust}
  - {name: mediator-state, mountPath: /var/lib/mediator/state}
  - {name: mediator-run, mountPath: /run/mediator/admin}
  - {name: mediator-ca, mountPath: /run/mediator/ca}
  {{- if .Values.sidecar.secret }}
  - {name: mediator-secrets, mountPath: /var/run/secrets/mediator, readOnly: true}
  {{- end }}
{{- end -}}

{{- /* The containers that come before all of the agent's, the first one last: each is put at the front. */ -}}
{{- define "mediator.initContainers" -}}
containers:
  {{- if ne .Values.sidecar.enforcement "none" }}
  # Tries other ways out, as the agent could, and fails if one is open.
  - name: mediator-validate
    image: {{ include "mediator.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args: [guard, --validate, {{ .Values.sidecar.enforcement }}, --outside, {{ join "," .Values.sidecar.outside | quote }}]
    resources: {{- toYaml .Values.sidecar.resources | nindent 6 }}
    securityContext: {{- include "mediator.securityContext" . | replace "10001" "10002" | nindent 6 }}
  {{- end }}
  {{- if eq .Values.sidecar.enforcement "pod" }}
  # Leads the agent to the sidecar in another pod.
  - name: mediator
    image: {{ include "mediator.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    restartPolicy: Always
    args: [guard, --forward, {{ printf "https://%s:8444,/etc/mediator/forwarder.yaml" .Values.proxy.address | quote }}, --ca-file, /run/mediator/ca/ca.pem]
    resources: {{- toYaml .Values.proxy.forwarder | nindent 6 }}
    securityContext: {{- include "mediator.securityContext" . | nindent 6 }}
    volumeMounts:
      - {name: mediator-files, mountPath: /etc/mediator, readOnly: true}
      - {name: mediator-ca, mountPath: /run/mediator/ca}
  {{- else }}
  - name: mediator
    restartPolicy: Always
    {{- include "mediator.sidecarContainer" . | nindent 4 }}
  {{- end }}
  {{- if eq .Values.sidecar.enforcement "guard" }}
  - name: mediator-guard
    image: {{ include "mediator.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args: [guard, --config, /etc/mediator/mediator.yaml]
    resources: {{- toYaml .Values.sidecar.resources | nindent 6 }}
    securityContext:
      runAsUser: 0
      runAsNonRoot: false
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL], add: [NET_ADMIN]}
      seccompProfile: {type: RuntimeDefault}
    volumeMounts:
      - {name: mediator-files, mountPath: /etc/mediator, readOnly: true}
  {{- end }}
{{- end -}}

{{- /* The names of these containers, the first one first. */ -}}
{{- define "mediator.own" -}}
{{- $names := list -}}{{- range (include "mediator.initContainers" . | fromYaml).containers }}{{ $names = prepend $names .name }}{{ end -}}
{{ $names | toJson }}
{{- end -}}

{{- /* The files of /etc/mediator that an agent's pod has as annotations, from the policy inject: their names. */ -}}
{{- define "mediator.annotated" -}}
{{- $files := concat (list "mediator.yaml" "registry.jwk" "auditor.jwk")
  (include "mediator.texts" . | fromJson | keys | sortAlpha) -}}
{{- if eq .Values.identity "token" }}{{ $files = append $files "authorities.pem" }}{{ end -}}
{{- if eq .Values.sidecar.enforcement "pod" }}{{ $files = list "forwarder.yaml" }}{{ end -}}
{{ $files | toJson }}
{{- end -}}

{{- define "mediator.forwarder" -}}
certificate: identity/pod.pem
key: identity/pod.pem
authorities: identity/authorities.pem
name: {{ include "mediator.host" (list . "proxy") }}
{{- end -}}

{{- define "mediator.volumes" -}}
volumes:
  - name: mediator-files
    projected:
      defaultMode: 292   # 0444: no other container mounts it
      sources:
        - downwardAPI:
            items:
              {{- range include "mediator.annotated" . | fromJsonArray }}
              - path: {{ . }}
                fieldRef: {fieldPath: "metadata.annotations['actionproof.github.io/{{ . }}']"}
              {{- end }}
        {{- if eq .Values.sidecar.enforcement "pod" }}
        {{- include "mediator.identity" . | nindent 8 }}
        {{- else }}
        {{- include "mediator.projected" (list . "sidecar") | nindent 8 }}
        {{- end }}
  - name: mediator-ca
    emptyDir: {medium: Memory, sizeLimit: 1Mi}
  {{- if ne .Values.sidecar.enforcement "pod" }}
  - name: mediator-trust
    emptyDir: {medium: Memory, sizeLimit: 64Mi}
  - name: mediator-state
    emptyDir: {sizeLimit: 1Gi}
  - name: mediator-run
    emptyDir: {medium: Memory, sizeLimit: 1Mi}
  {{- if .Values.sidecar.secret }}
  - name: mediator-secrets
    secret: {secretName: {{ .Values.sidecar.secret }}, defaultMode: 292}   # 0444, as above
  {{- end }}
  {{- end }}
{{- end -}}
