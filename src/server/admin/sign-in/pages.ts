/** The pages of a sign-in: without script, with a reason in the gateway's own words. */
import { createHash } from 'node:crypto'
import { escapeHtml } from '../../escape-html.ts'

const STYLE =
  ':root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}body{max-width:32rem;margin:15vh auto 0;padding:0 1rem}h1{font-size:1.25rem}a{display:inline-block;padding:.25rem 0}code{font:.875rem ui-monospace,monospace}'

/** The headers of a page. `no-store`: the address has a code of the issuer. */
export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
} as const

/** The same for a page with a form: its own origin receives it, and the request states this origin. */
export const FORM_HEADERS = {
  ...PAGE_HEADERS,
  'content-security-policy': PAGE_HEADERS['content-security-policy'].replace(
    "form-action 'none'",
    "form-action 'self'",
  ),
  'referrer-policy': 'same-origin',
} as const

type Link = { readonly href: string; readonly text: string }

/** A page with a sentence, links, and the ID of the request, by which the log has the cause. */
export const signInPage = (
  title: string,
  sentence: string,
  { links, requestId }: { readonly links: readonly Link[]; readonly requestId: string },
): string => formPage({ title, sentence, links, requestId })

/** A form which the page itself receives. */
type Form = {
  readonly input?: { readonly name: string; readonly label: string; readonly value: string }
  readonly hidden?: { readonly name: string; readonly value: string }
  readonly buttons: readonly { readonly name: string; readonly value: string; readonly text: string }[]
}

/** The same with a form. */
export const formPage = ({
  title,
  sentence,
  links,
  form,
  requestId,
}: {
  readonly title: string
  readonly sentence: string
  readonly links: readonly Link[]
  readonly form?: Form
  readonly requestId: string
}): string => {
  const items = links.map(({ href, text }) => `<li><a href="${escapeHtml(href)}">${escapeHtml(text)}</a></li>`).join('')
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Headgate: ${escapeHtml(title)}</title>` +
    `<meta name="viewport" content="width=device-width"><style>${STYLE}</style></head><body><main><h1>${escapeHtml(title)}</h1>` +
    `<p>${escapeHtml(sentence)}</p>${form ? formHtml(form) : ''}<ul>${items}</ul><p>Request <code>${escapeHtml(requestId)}</code></p></main></body></html>`
  )
}

const formHtml = ({ input, hidden, buttons }: Form): string => {
  const field = input
    ? `<label>${escapeHtml(input.label)} <input name="${escapeHtml(input.name)}" value="${escapeHtml(input.value)}" autocomplete="off" autocapitalize="characters" spellcheck="false" required></label> `
    : ''
  const kept = hidden
    ? `<input type="hidden" name="${escapeHtml(hidden.name)}" value="${escapeHtml(hidden.value)}">`
    : ''
  const pressed = buttons
    .map(
      ({ name, value, text }) =>
        `<button name="${escapeHtml(name)}" value="${escapeHtml(value)}">${escapeHtml(text)}</button>`,
    )
    .join(' ')
  return `<form method="post">${field}${kept}${pressed}</form>`
}

/** Why a sign-in is refused: the status, and the sentence for the person. */
export const REFUSALS = {
  not_begun: [400, 'This sign-in was not begun in this browser, or longer than 10 minutes ago. Begin again.'],
  denied: [403, 'The identity provider did not sign you in. Begin again, or contact your administrator.'],
  invalid: [
    400,
    'The answer of the identity provider could not be verified. Begin again, or contact the operator of the gateway.',
  ],
  unavailable: [503, 'The identity provider does not answer. Try again in a minute.'],
  misconfigured: [
    503,
    'The identity provider and the gateway do not agree about their settings. Contact the operator of the gateway.',
  ],
  domain: [403, 'Your e-mail address is not verified by the identity provider, or its domain may not sign in here.'],
  too_many_groups: [
    403,
    'The identity provider did not send your groups, because there are too many. Ask your administrator to assign groups to this application.',
  ],
  groups: [
    403,
    'The identity provider sent groups in a form that is not a list of names. Contact the operator of the gateway.',
  ],
  no_role: [403, 'Your account has no role in this gateway. Ask its administrator for one.'],
  no_team: [
    403,
    'Your account has no role in this gateway, and no team pays for its model calls. Ask its administrator for one.',
  ],
  device_code: [
    400,
    'The code of the program is unknown, was used, or is older than 10 minutes. Start the program again.',
  ],
  blocked: [403, 'An administrator of the gateway has blocked this account.'],
  storage: [503, 'The gateway cannot store sessions at present. Try again in a minute.'],
  too_many: [429, 'Too many sign-ins from this address failed. Wait a minute, then begin again.'],
  unknown_provider: [404, 'There is no identity provider of this name.'],
} as const satisfies Record<string, readonly [status: number, sentence: string]>

export type SignInRefusal = keyof typeof REFUSALS
