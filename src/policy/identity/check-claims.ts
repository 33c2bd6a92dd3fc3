/** Checks the claims of a token whose signature is valid, by one rule. */
import type { JsonObject } from '../../core/json.ts'
import type { TokenIdentity, TokenRule, TokenTeam } from '../../core/token-rule.ts'
import { exactGlob, matchesGlob } from '../accounts/glob.ts'
import { claimAt, claimText, claimTexts } from './claims.ts'
import { type RefusedToken, refused } from './token-form.ts'

/** Characters of a claim that is used as a name or a tag. */
const MAX_TEXT = 200
/** Characters of the JSON text of all tags, as of a key. */
const MAX_TAGS = 1_024
/** A text without control characters, surrogates, and characters that change the direction or have no width. */
const PLAIN = /^[^\p{C}\p{Zl}\p{Zp}]+$/u

export type IdentifiedToken = { readonly ok: true; readonly identity: TokenIdentity }

/**
 * The identity that a token has by a rule, or the first check that fails. `noTeam`: all checks pass, and no team is named. `now`: ms
 * since 1970.
 */
export const checkClaims = (
  rule: TokenRule,
  claims: JsonObject,
  now: number,
): IdentifiedToken | (RefusedToken & { readonly noTeam?: true }) => {
  if (claims.iss !== rule.keys.issuer) return refused('iss')
  if (!claimTexts(claims.aud).some((one) => rule.audience.includes(one))) return refused('aud')
  const until = endOf(rule, claims, now)
  if (typeof until === 'string') return refused(until)
  for (const [claim, globs] of rule.require) {
    const texts = claimTexts(claimAt(claims, claim))
    if (!globs.some((glob) => texts.some((one) => matchesGlob(exactGlob(glob), one))))
      return refused(`require ${claim}`)
  }
  const subject = claimText(claimAt(claims, rule.subject))
  if (!isName(subject)) return refused(`subject ${rule.subject}`)
  const user = rule.user === null ? null : claimText(claimAt(claims, rule.user))
  if (user !== null && !isName(user)) return refused(`user ${rule.user}`)
  const tags: Record<string, string> = {}
  for (const [tag, claim] of rule.tags) {
    const value = claimAt(claims, claim)
    if (value === undefined || value === null) continue
    const text = claimText(value)
    // A tag that is left out could evade a budget.
    if (!isName(text)) return refused(`tags ${tag}`)
    tags[tag] = text
  }
  if (JSON.stringify(tags).length > MAX_TAGS) return refused('tags')
  const team = teamOf(rule.team, claims)
  if (team === null) return { ...refused('team'), noTeam: true }
  return { ok: true, identity: { rule, subject, team, user, tags, until } }
}

/** The end of the token in ms since 1970, or the time claim that is wrong. */
const endOf = ({ skew, maxAge }: TokenRule, { exp, nbf, iat }: JsonObject, now: number): number | string => {
  if (!isTime(exp)) return 'exp'
  const end = exp * 1_000
  if (now >= end + skew) return 'exp'
  if (nbf !== undefined && (!isTime(nbf) || nbf * 1_000 > now + skew)) return 'nbf'
  if (iat !== undefined && (!isTime(iat) || iat * 1_000 > now + skew)) return 'iat'
  // Without `iat` the token is younger than it may be.
  const from = isTime(iat) ? iat * 1_000 : isTime(nbf) ? nbf * 1_000 : now
  return end - from > maxAge + skew ? 'maxAge' : end + skew
}

/** NumericDate may have a fraction (RFC 7519, section 2). */
const isTime = (value: unknown): value is number => typeof value === 'number' && value >= 0 && value < 1e11

const isName = (text: string | undefined): text is string =>
  text !== undefined && text.length <= MAX_TEXT && text.trim() === text && PLAIN.test(text)

const teamOf = (rule: TokenTeam, claims: JsonObject): string | null => {
  if (rule.kind === 'value') return rule.team
  const texts = claimTexts(claimAt(claims, rule.claim))
  const found = rule.map.find(([glob]) => texts.some((one) => matchesGlob(exactGlob(glob), one)))
  return found?.[1] ?? rule.fallback
}
