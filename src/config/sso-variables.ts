/** Single values of `sso` in the environment, above those of the file. Lists, such as the identity providers, need the file. */

import type { Env } from './env.ts'
import { variable } from './environment.ts'
import { type Problem, quote } from './problem.ts'
import { LEAST, MAX_TIME, SHORTEST_SECRET, type SsoEntry } from './sso-schema.ts'

const TIMES = { SSO_SESSION_IDLE: 'idle', SSO_SESSION_MAX: 'max', SSO_SESSION_RECHECK: 'recheck' } as const
const [PUBLIC_URL, SECRET] = ['SSO_PUBLIC_URL', 'SSO_SECRET']

type Filled = {
  readonly sso: SsoEntry | null
  readonly problems: readonly Problem[]
  readonly warnings: readonly string[]
}

/** The section with the variables. Null: the file has none, so that no one can sign in. */
export const withSsoVariables = (entry: SsoEntry | null, env: Env): Filled => {
  const set = [PUBLIC_URL, SECRET, ...Object.keys(TIMES)].filter((name) => variable(env, name) !== undefined)
  if (set.length === 0) return { sso: entry, problems: [], warnings: [] }
  if (!entry)
    return {
      sso: null,
      problems: [],
      warnings: [`${set.join(', ')} without the section sso, whose providers are in headgate.yaml: no one can sign in`],
    }
  const problems: Problem[] = []
  const session = { ...entry.session }
  for (const [name, member] of Object.entries(TIMES)) {
    const text = variable(env, name)
    if (text === undefined) continue
    const time = /^[0-9]{1,10}$/.test(text) ? Number(text) : 0
    if (time >= LEAST[member] && time <= MAX_TIME) session[member] = time
    else problems.push({ where: name, found: quote(text), allowed: `${LEAST[member]} to ${MAX_TIME} (ms)` })
  }
  const [publicUrl = entry.publicUrl, secret = entry.secret] = [variable(env, PUBLIC_URL), variable(env, SECRET)]
  if (variable(env, SECRET) !== undefined && String(secret).length < SHORTEST_SECRET)
    problems.push({
      where: SECRET,
      found: 'a value that is not shown, because it is a secret',
      allowed: `at least ${SHORTEST_SECRET} characters`,
    })
  return { sso: { ...entry, publicUrl, secret, session }, problems, warnings: [] }
}
