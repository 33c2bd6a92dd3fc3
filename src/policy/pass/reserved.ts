/** First segments of the gateway's own paths. An instance of one of these names has no pass-through: its paths would be ambiguous. */
export const RESERVED_SEGMENTS: ReadonlySet<string> = new Set(
  `.well-known admin api audio chat completions conversations dashboard deployments device docs embeddings favicon.ico
health images inference-profiles llms.txt llms-full.txt managed messages metrics model models moderations oauth openapi.json projects protocol
providers publishers requests rerank responses robots.txt route usage v1 v1alpha v1beta v1beta1 v2 logs traces realtime upload`.split(
    /\s+/,
  ),
)
