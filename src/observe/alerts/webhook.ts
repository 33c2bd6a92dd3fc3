/** Sends one alert to the configured address, signed as described by Standard Webhooks. */
import type { Alerts } from '../../core/config.ts'
import type { Dial } from '../../core/world.ts'
import type { DueAlert } from '../../policy/alerts/alert-state.ts'
import { slackText } from '../../policy/alerts/quoted-name.ts'
import { shortRequest } from '../../transport/net/short-request.ts'
import { signatureOf } from '../../transport/net/webhook-signature.ts'

/** ms for one request. */
const TIMEOUT = 10_000

/** The body of an alert. Times as RFC 3339. */
export const alertBody = (
  { condition, isResolved }: DueAlert,
  { id, at, node }: { readonly id: string; readonly at: number; readonly node: string },
): object => {
  const { type, severity, object, threshold, value, limit, until, message } = condition
  return {
    id,
    type: isResolved ? `${type}.resolved` : type,
    at: new Date(at).toISOString(),
    severity: isResolved ? 'info' : severity,
    object,
    threshold: threshold === '' ? null : threshold,
    value,
    limit,
    period_end: until === null || Number.isNaN(new Date(until).getTime()) ? null : new Date(until).toISOString(),
    node,
    message: isResolved ? `Over: ${message}` : message,
  }
}

/** The same for Slack's incoming webhooks. */
export const slackBody = ({ condition, isResolved }: DueAlert, node: string): object => ({
  text: `[${isResolved ? 'resolved' : condition.severity}] ${slackText(condition.message)} (${slackText(node)})`,
})

/** The body with the number of alerts before it that were not delivered; unchanged for 0. `body`: JSON of one of the above. */
export const withUndelivered = (body: string, undelivered: number): string => {
  if (undelivered === 0) return body
  const { text, ...members } = JSON.parse(body)
  return JSON.stringify(
    typeof text === 'string'
      ? { text: `${text} Alerts not delivered before: ${undelivered}.` }
      : { ...members, undelivered },
  )
}

const TEST = 'This is a test of the alerts of Headgate. Nothing is wrong.'

/** The body of a test, in the format of the alerts. */
export const testBody = (
  format: Alerts['format'],
  { id, at, node }: { readonly id: string; readonly at: number; readonly node: string },
): object =>
  format === 'slack'
    ? { text: `[info] ${TEST} (${slackText(node)})` }
    : {
        id,
        type: 'test',
        at: new Date(at).toISOString(),
        severity: 'info',
        object: { kind: 'gateway', id: node, name: node },
        threshold: null,
        value: null,
        limit: null,
        period_end: null,
        node,
        message: TEST,
      }

/** The receiver without its path, which is often a credential. */
export const shownReceiver = ({ url, format, secret }: Alerts) => {
  const { origin, pathname, search } = new URL(url.reveal())
  return { url: `${origin}${pathname === '/' && search === '' ? '' : '/…'}`, format, signed: secret !== null }
}

/** Sends a body. Null: the receiver accepted it; otherwise the reason, which contains neither address nor secret. */
export const sendAlert = async (
  { url, secret }: Pick<Alerts, 'url' | 'secret'>,
  { id, body }: { readonly id: string; readonly body: string },
  { dial, signal }: { readonly dial: Dial; readonly signal: AbortSignal },
): Promise<string | null> => {
  const timestamp = Math.floor(Date.now() / 1000)
  const signature = secret && signatureOf(secret.reveal(), id, timestamp, body)
  const within = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT)])
  const call = {
    method: 'POST',
    // Redirects are not followed: they could lead to an address that the operator did not choose.
    url: url.reveal(),
    headers: {
      'content-type': 'application/json',
      'user-agent': 'headgate',
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      ...(signature && { 'webhook-signature': signature }),
    },
    body,
    connectTimeout: TIMEOUT,
    // The receiver may act on every request that it receives.
    once: true,
  } as const
  const sent = await shortRequest(dial, call, within)
  if (!sent.ok) {
    const { kind, message } = sent.failure
    if (kind === 'timeout') return `no response within ${TIMEOUT / 1000} s`
    return kind === 'proxy' ? message : 'the receiver cannot be reached'
  }
  const { status } = sent.value
  return status >= 200 && status < 300 ? null : `the receiver responded with status ${status}`
}
