{{/* What everything is named. */}}
{{- define "comporta.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains "comporta" .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-comporta" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* By what the pods are found. It must never change: a Deployment's selector cannot. */}}
{{- define "comporta.selectorLabels" -}}
app.kubernetes.io/name: comporta
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "comporta.labels" -}}
{{ include "comporta.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "comporta.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "comporta.policiesConfigMap" -}}
{{ .Values.policiesConfigMap | default (printf "%s-policies" (include "comporta.fullname" .)) }}
{{- end -}}

{{/* Not empty if replicas share their limits. */}}
{{- define "comporta.hasRedis" -}}
{{- if or .Values.redis.url .Values.redis.urlSecret.name -}}yes{{- end -}}
{{- end -}}

{{/* What schemas cannot say: values that go together. */}}
{{- define "comporta.check" -}}
{{- $values := .Values -}}
{{- if and (not $values.policies) (not $values.policiesConfigMap) -}}
{{- fail "policies: there is none. Give a file (--set-file policies.api\\.yaml=FILE), or the name of a ConfigMap in policiesConfigMap" -}}
{{- end -}}
{{- if and $values.policies $values.policiesConfigMap -}}
{{- fail "policies and policiesConfigMap exclude each other: give one of the two" -}}
{{- end -}}
{{- if and $values.redis.url $values.redis.urlSecret.name -}}
{{- fail "redis.url and redis.urlSecret exclude each other: give one of the two" -}}
{{- end -}}
{{- if regexMatch "://[^/]*@|[?&]pass=" $values.redis.url -}}
{{- fail "redis.url holds a login, which everybody who may see pods could read: put the URL in a Secret (redis.urlSecret), or the login (redis.loginSecret)" -}}
{{- end -}}
{{- if and (not (include "comporta.hasRedis" .)) (or $values.redis.loginSecret.name $values.redis.caSecret.name $values.redis.certificateSecret) -}}
{{- fail "redis: there are Secrets for it, and neither redis.url nor redis.urlSecret says where it is" -}}
{{- end -}}
{{- range $face, $tls := $values.tls -}}
{{- if and $tls.clientCaSecret.name (not $tls.secret) -}}
{{- fail (printf "tls.%s.clientCaSecret asks clients for certificates, and without tls.%s.secret there is no TLS" $face $face) -}}
{{- end -}}
{{- if and $tls.clientSans (not $tls.clientCaSecret.name) -}}
{{- fail (printf "tls.%s.clientSans names clients, and without tls.%s.clientCaSecret their certificates are not asked for" $face $face) -}}
{{- end -}}
{{- end -}}
{{- if ge (int $values.drain.delaySeconds) (int $values.drain.timeoutSeconds) -}}
{{- fail "drain.timeoutSeconds is the whole time of stopping: it must be longer than drain.delaySeconds" -}}
{{- end -}}
{{- if and $values.autoscaling.enabled (gt (int $values.autoscaling.minReplicas) (int $values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas" -}}
{{- end -}}
{{- $replicas := ternary (int $values.autoscaling.maxReplicas) (int $values.replicas) $values.autoscaling.enabled -}}
{{- if and (gt $replicas 1) (not (include "comporta.hasRedis" .)) -}}
{{- fail (printf "%d replicas without Redis would let %d times the limits pass: give redis.url or redis.urlSecret, or one replica" $replicas $replicas) -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled (not $values.admin.exposed) -}}
{{- fail "serviceMonitor.enabled needs admin.exposed: metrics are on the pods' loopback otherwise" -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled $values.networkPolicy.enabled (not $values.networkPolicy.adminFrom) -}}
{{- fail "serviceMonitor.enabled needs networkPolicy.adminFrom: the network policy lets nobody ask for metrics otherwise" -}}
{{- end -}}
{{- end -}}

{{/* The arguments of the container. Flags and not variables: one that does not exist stops the rollout. */}}
{{- define "comporta.arguments" -}}
{{- $arguments := dict
  "policy" "/etc/comporta"
  "drain-delay" (int .Values.drain.delaySeconds)
  "drain-timeout" (int .Values.drain.timeoutSeconds)
-}}
{{- if .Values.admin.exposed -}}{{- $_ := set $arguments "admin-addr" "[::]:6070" -}}{{- end -}}
{{- with .Values.redis -}}
{{- if .url -}}{{- $_ := set $arguments "redis-url" .url -}}{{- end -}}
{{- if .loginSecret.name -}}{{- $_ := set $arguments "redis-auth-file" "/secrets/redis-login/login" -}}{{- end -}}
{{- if .caSecret.name -}}{{- $_ := set $arguments "redis-tls-ca" "/secrets/redis-ca/ca.crt" -}}{{- end -}}
{{- if .certificateSecret -}}
{{- $_ := set $arguments "redis-tls-cert" "/secrets/redis-certificate/tls.crt" -}}
{{- $_ := set $arguments "redis-tls-key" "/secrets/redis-certificate/tls.key" -}}
{{- end -}}
{{- end -}}
{{- range $face, $tls := .Values.tls -}}
{{- if $tls.secret -}}
{{- $_ := set $arguments (printf "%s-tls-cert" $face) (printf "/secrets/%s/tls.crt" $face) -}}
{{- $_ := set $arguments (printf "%s-tls-key" $face) (printf "/secrets/%s/tls.key" $face) -}}
{{- end -}}
{{- if $tls.clientCaSecret.name -}}{{- $_ := set $arguments (printf "%s-tls-client-ca" $face) (printf "/secrets/%s-clients/ca.crt" $face) -}}{{- end -}}
{{- if $tls.clientSans -}}{{- $_ := set $arguments (printf "%s-tls-client-san" $face) (join "," $tls.clientSans) -}}{{- end -}}
{{- end -}}
{{- range $flag, $value := .Values.settings -}}
{{- if hasKey $arguments $flag -}}
{{- fail (printf "settings.%s: the chart sets it already, to %q" $flag (toString (get $arguments $flag))) -}}
{{- end -}}
{{- /* YAML reads whole numbers as floating-point ones, and 1000000 would become 1e+06. */ -}}
{{- $_ := set $arguments $flag (ternary (int64 $value) $value (and (kindIs "float64" $value) (eq (toString (int64 $value | float64)) (toString $value)))) -}}
{{- end -}}
- serve
{{- range $flag, $value := $arguments }}
- {{ printf "--%s=%v" $flag $value | quote }}
{{- end }}
{{- end -}}

{{/* The Secrets that are mounted: a list of name, secret, items. */}}
{{- define "comporta.secrets" -}}
{{- $secrets := list -}}
{{- with .Values.redis -}}
{{- if .loginSecret.name -}}{{- $secrets = append $secrets (dict "name" "redis-login" "secret" .loginSecret.name "items" (dict "login" .loginSecret.key)) -}}{{- end -}}
{{- if .caSecret.name -}}{{- $secrets = append $secrets (dict "name" "redis-ca" "secret" .caSecret.name "items" (dict "ca.crt" .caSecret.key)) -}}{{- end -}}
{{- if .certificateSecret -}}{{- $secrets = append $secrets (dict "name" "redis-certificate" "secret" .certificateSecret "items" (dict "tls.crt" "tls.crt" "tls.key" "tls.key")) -}}{{- end -}}
{{- end -}}
{{- range $face, $tls := .Values.tls -}}
{{- if $tls.secret -}}{{- $secrets = append $secrets (dict "name" $face "secret" $tls.secret "items" (dict "tls.crt" "tls.crt" "tls.key" "tls.key")) -}}{{- end -}}
{{- if $tls.clientCaSecret.name -}}{{- $secrets = append $secrets (dict "name" (printf "%s-clients" $face) "secret" $tls.clientCaSecret.name "items" (dict "ca.crt" $tls.clientCaSecret.key)) -}}{{- end -}}
{{- end -}}
{{- toYaml $secrets -}}
{{- end -}}
