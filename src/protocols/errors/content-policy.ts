/**
 * Recognises by shape that a provider refuses a request for its content. Such a request is never sent to another provider,
 * so the words must be about content: a policy about data, parameters or prices is none.
 */
const CONTENT =
  /content (?:filter|moderation|management polic|polic|safety|blocked|violat|was (?:blocked|flagged))|content exists risk|\bsafety (?:system|filter|guideline|polic)|(?:usage|acceptable use|content|safety|community) (?:policy|policies|guidelines?)|\bflagged\b|(?:inappropriate|sensitive|unsafe|harmful|prohibited|offensive) (?:content|words?|information|material)|considered high risk|不安全|敏感|违规/i

/** Whether the message says that the content is refused. */
export const isContentPolicy = (message: string): boolean => CONTENT.test(message)
