/** The Claude Code gateway protocol of the file: checked, and converted to settings. */
import { type ClaudeReceiver, type ClaudeSettings, SIGNALS } from '../core/claude.ts'
import { parseObject } from '../core/json.ts'
import { Secret } from '../core/secret.ts'
import { withoutSlashes } from '../core/trailing-slashes.ts'
import type { AccountReport, Path } from './account-report.ts'
import type { ClaudeEntry } from './claude-schema.ts'
import { quote } from './problem.ts'

/** Bytes of the settings of one policy. */
const MOST = 65_536
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** The gateway sets these. */
const RESERVED = ['host', 'content-length', 'content-type', 'content-encoding', 'transfer-encoding', 'connection']

/** Converts the section; null: it is off. `hasSignIn`: the file has `sso`. */
export const claudeFrom = (entry: ClaudeEntry, hasSignIn: boolean, report: AccountReport): ClaudeSettings | null => {
  if (entry.enabled && !hasSignIn)
    report.refuse(['claude', 'enabled'], 'true without single sign-on', 'the section sso, with which people sign in')
  const policies = entry.policies.map(({ match, settings: written }, index) => {
    const json = JSON.stringify(written)
    const size = Buffer.byteLength(json)
    if (size > MOST)
      report.refuse(['claude', 'policies', index, 'settings'], `settings of ${size} bytes`, 'at most 64 KiB', 'name')
    const domains = match.domains?.map((one) => one.toLowerCase().replace(/^@/, '')) ?? null
    return {
      match: { groups: match.groups ?? null, domains, teams: match.teams ?? null },
      settings: parseObject(json) ?? {},
    }
  })
  const receivers = entry.telemetry.forward.map((one, index) =>
    receiverFrom(one, ['claude', 'telemetry', 'forward', index], report),
  )
  if (!entry.enabled) return null
  return { policies, receivers, loginNotice: entry.loginNotice ?? null }
}

const receiverFrom = (
  { url, headers, ...signals }: ClaudeEntry['telemetry']['forward'][number],
  path: Path,
  report: AccountReport,
): ClaudeReceiver => {
  const address = URL.canParse(url) ? new URL(url) : null
  const isPlain = address !== null && address.username === '' && address.search === '' && address.hash === ''
  const isHttp = address?.protocol === 'https:' || address?.protocol === 'http:'
  if (!isPlain || !isHttp) report.refuse([...path, 'url'], quote(url), 'an http:// or https:// address without a query')
  for (const [name, value] of Object.entries(headers))
    if (!HEADER_NAME.test(name) || RESERVED.includes(name.toLowerCase()) || !/^[\t\x20-\x7e]*$/.test(value))
      report.refuse([...path, 'headers', name], quote(name), 'a header that the gateway does not set itself', 'name')
  return {
    url: withoutSlashes(url),
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.toLowerCase(), new Secret(value)]),
    ),
    signals: SIGNALS.filter((signal) => signals[signal]),
  }
}
