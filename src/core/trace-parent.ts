/** `traceparent` of a request (W3C Trace Context, section 3.2): what is recorded of it. */
const FORM = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

/** Null: the header is missing or has another form. It is not recorded then, since it may contain anything, such as a key. */
export const traceParent = (value: string | undefined): string | null =>
  value !== undefined && FORM.test(value) ? value : null
