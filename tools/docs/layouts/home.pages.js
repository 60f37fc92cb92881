{{- /* What the search looks through. */ -}}
{{- $pages := slice -}}
{{- range site.Pages -}}
{{- $pages = $pages | append (dict "title" (partial "title.html" .) "url" (strings.TrimPrefix "/" .RelPermalink) "text" .Plain) -}}
{{- end -}}
const pages = {{ $pages | jsonify }};
