/**
 * Names of teams, keys and budgets, which occur in messages, headers, logs and metrics. A name may contain a status such as
 * 429: error bodies escape it (`retryNeutral`), and headers have the ID.
 */

const MAX_LENGTH = 64
/** Characters that every header, log and metric can contain. */
const ALLOWED = /^[A-Za-z0-9][A-Za-z0-9 ._@+-]*$/
const ID = /^(?:team|key|bud|prc|usr|adm)_[a-z]{12}$/

/** The problem of a name as configured, or null. For error messages of the configuration and the admin API. */
export const accountNameProblem = (name: string): string | null => {
  if (name.trim() === '') return 'The name is empty. Write a name.'
  if (name.length > MAX_LENGTH)
    return `The name has ${name.length} characters (limit ${MAX_LENGTH}). Write a shorter name.`
  if (!ALLOWED.test(name) || name.endsWith(' '))
    return 'The name contains other characters than letters, digits, spaces and . _ @ + -, or does not begin with a letter or digit. Write another name.'
  return ID.test(name) ? 'The name has the form of an ID. Write another name.' : null
}
