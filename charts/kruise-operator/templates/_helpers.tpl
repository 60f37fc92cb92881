{{/* Further arguments of the manager, as a JSON list. */}}
{{- define "kruise-operator.args" -}}
{{- $m := .Values.manager -}}
{{- $args := list (printf "--webhook-port=%v" $m.webhook.port) (printf "--metrics-bind-address=%s:%v" $m.metrics.addr $m.metrics.port) (printf "--metrics-secure=%v" $m.metrics.secure) (printf "--log-level=%v" $m.log.level) -}}
{{- $args = append $args (printf "--log-format=%s" (trim $m.loggingFormat | default "console")) -}}
{{- with $m.custom_resource_enable }}{{ $args = append $args (printf "--kinds=%s" (kindIs "slice" . | ternary (join "," .) .)) }}{{ end -}}
{{- with .Values.featureGates }}{{ $args = append $args (printf "--feature-gates=%s" .) }}{{ end -}}
{{- with $m.pprofAddr }}{{ $args = append $args (printf "--pprof-bind-address=%s" .) }}{{ end -}}
{{- if ne (toString $m.resyncPeriod) "0" }}{{ $args = append $args (printf "--resync-period=%s" $m.resyncPeriod) }}{{ end -}}
{{- if $m.restConfig.qps }}{{ $args = concat $args (list (printf "--qps=%v" $m.restConfig.qps) (printf "--burst=%v" $m.restConfig.burst)) }}{{ end -}}
{{- $args | toJson -}}
{{- end -}}

{{/* The spec of the Kruise object, as JSON; {} when no value asks for one. */}}
{{- define "kruise-operator.kruise" -}}
{{- $daemon := dict -}}
{{- with .Values.daemon.resources }}{{ $_ := set $daemon "resources" . }}{{ end -}}
{{- with .Values.daemon.tolerations }}{{ $_ := set $daemon "tolerations" . }}{{ end -}}
{{- if or .Values.daemon.socketLocation .Values.daemon.socketFile -}}
{{- $folder := .Values.daemon.socketLocation | default "/var/run" -}}
{{- $_ := set $daemon "criSocketPath" (printf "%s/%s" (trimSuffix "/" $folder) (.Values.daemon.socketFile | default "containerd.sock")) -}}
{{- end -}}
{{- $spec := dict -}}
{{- with $daemon }}{{ $_ := set $spec "nodeDaemon" . }}{{ end -}}
{{- with .Values.imagePullSecrets }}{{ $_ := set $spec "images" (dict "pullSecrets" .) }}{{ end -}}
{{- $spec | toJson -}}
{{- end -}}

{{/* The values that have an effect, by the group that they are in. NOTES names all others. */}}
{{- define "kruise-operator.known" -}}
"": [installation, crds, featureGates, imagePullSecrets, serviceAccount, manager, daemon, webhookConfiguration, global]
installation: [namespace, createNamespace]
crds: [managed]
serviceAccount: [annotations]
manager: [replicas, image, custom_resource_enable, resources, log, loggingFormat, metrics, webhook, pprofAddr, resyncPeriod, restConfig, hostNetwork, nodeAffinity, nodeSelector, tolerations]
daemon: [resources, tolerations, socketLocation, socketFile]
webhookConfiguration: [timeoutSeconds]
{{- end -}}
