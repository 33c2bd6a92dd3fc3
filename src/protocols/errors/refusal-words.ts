/** The words of a refusal that show what it is about. */

/**
 * Recognises by shape that a provider refuses a request for its content. Such a request is never sent to another provider,
 * so the words must be about content: a policy about data, parameters or prices is none.
 */
const CONTENT =
  /content (?:filter|moderation|management polic|polic|safety|blocked|violat|was (?:blocked|flagged))|content exists risk|\bsafety (?:system|filter|guideline|polic)|(?:usage|acceptable use|content|safety|community) (?:policy|policies|guidelines?)|\bflagged\b|(?:inappropriate|sensitive|unsafe|harmful|prohibited|offensive) (?:content|words?|information|material)|considered high risk|不安全|敏感|违规/i

/** Whether the message says that the content is refused. */
export const isContentPolicy = (message: string): boolean => CONTENT.test(message)

// A 404: only a message that says that the model does not exist is about the model. Others name a feature of the request (`No
// endpoints found that support image input`) or an address.

/** The model, then that it is missing. */
const MISSING_AFTER =
  /\b(?:models?|deployment|engine)\b[^\n]{0,300}?(?:\bnot (?:be )?found|(?:do|does|did)(?: not|n['’]t) exist|\bnot exist|no such|\bunknown\b|\bunavailable|\bnot available|no longer|\bretired|decommissioned|\bdeprecated|\bremoved|discontinued|not deployed|inaccessible)/i

/** That it is missing, then the model. `No endpoints found for a/b` is OpenRouter's, `Function …` NVIDIA's. */
const MISSING_BEFORE =
  /(?:\bnot found|\bunknown|\bno such|unable to access|could not (?:find|resolve)|cannot find|\bno|\binvalid)[: ]{0,3}(?:the |a |foundation |requested |specified ){0,3}(?:models?|deployment)\b|^model: |^no endpoints found for [\w./:-]{1,200}|^function '[^']{1,200}': not found/i

/** Whether the message says that the model does not exist. */
export const isModelMissing = (message: string): boolean => MISSING_BEFORE.test(message) || MISSING_AFTER.test(message)

/** Only that something was not found, or an address. */
const UNSPECIFIC =
  /^\W{0,5}(?:404\W{0,3})?(?:(?:the |requested |resource |page |path |route |endpoint |url ){0,4}(?:was |could )?(?:not (?:be )?found)?)\W{0,5}$|^[^\n]{0,60}\b(?:url|path|route|page|cannot (?:post|get))\b/i

/** Whether the message states neither a model nor a part of the request. */
export const isUnspecificNotFound = (message: string): boolean => UNSPECIFIC.test(message)
