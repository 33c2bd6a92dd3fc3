/** The states that every view has, and the head of a page. */
import type { ComponentChildren } from 'preact'
import type { ApiProblem } from '../api.ts'
import { session } from '../api.ts'
import { clock, money } from '../format.ts'
import { toast } from '../store.ts'
import { en } from '../words/en.ts'

/** The title of a page, with what stands beside it. */
export const PageHead = ({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) => (
  <div class="page-head">
    <h1>{title}</h1>
    {children}
  </div>
)

/** An amount in dollars. In a column of numbers the decimal points are below each other. */
export const Amount = ({ text }: { readonly text: string }) => {
  const cost = money(text)
  const at = cost.search(/[.,]\d+$/)
  const end = at === -1 ? cost.length : at
  return (
    <span class="amount">
      {cost.slice(0, end)}
      <span>{cost.slice(end)}</span>
    </span>
  )
}

/** A text in which code is between backticks. */
export const WithCode = ({ text }: { readonly text: string }) => (
  <>{text.split('`').map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part))}</>
)

/** Rows without content while the first values are read. */
export const Loading = ({ rows = 6 }: { readonly rows?: number }) => (
  <div class="skeleton" aria-busy="true">
    <span class="sr-only" role="status">
      {en.states.loading}
    </span>
    {Array.from({ length: rows }, (_, row) => (
      <div key={row} class="skeleton-row" />
    ))}
  </div>
)

/** Nothing to show: what would be here, and how it comes about. */
export const Empty = ({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) => (
  <div class="state">
    <p class="state-title">{title}</p>
    {children}
  </div>
)

const details = ({ status, code, message, requestId }: ApiProblem): string =>
  [`status ${status}`, `code ${code}`, message, ...(requestId === null ? [] : [`request ${requestId}`])].join('\n')

type FailedProps = {
  readonly problem: ApiProblem
  readonly retry?: () => void
  /** When the values were read that are still shown, in ms since 1970; null: none are. */
  readonly shownSince?: number | null
}

/** A failed call, with the API's own message. */
export const Failed = ({ problem, retry, shownSince = null }: FailedProps) => {
  if (problem.status === 403) return <NotAllowed problem={problem} />
  return (
    <div class="state state-bad" role="alert">
      <p class="state-title">{en.states.failed}</p>
      <p>{problem.message}</p>
      {shownSince !== null && <p>{en.live.since(clock(shownSince))}</p>}
      {problem.requestId !== null && <p class="mono small">{en.states.request(problem.requestId)}</p>}
      <div class="row">
        {retry && (
          <button type="button" class="button" onClick={retry}>
            {en.states.retry}
          </button>
        )}
        <button type="button" class="button quiet" onClick={() => void copyText(details(problem))}>
          {en.states.details}
        </button>
      </div>
    </div>
  )
}

/** A role is missing: which one, and who is signed in. */
export const NotAllowed = ({ problem }: { readonly problem: ApiProblem }) => (
  <div class="state">
    <p class="state-title">{en.states.notAllowed}</p>
    <p>{problem.message}</p>
    {session.value && <p>{en.states.notAllowedAs(session.value.actor.name)}</p>}
  </div>
)

/** A value that is not known, with the reason. */
export const Unknown = ({ why, text = '–' }: { readonly why: string; readonly text?: string }) => (
  <span class="unknown" title={why}>
    {text}
    <span class="sr-only"> {why}</span>
  </span>
)

/** Copies a text, and shows that it did. */
export const copyText = async (text: string): Promise<void> => {
  try {
    await navigator.clipboard.writeText(text)
    toast(en.actions.copied)
  } catch {
    toast(en.actions.copyFailed, { tone: 'bad' })
  }
}

/** A button that copies a text. */
export const Copy = ({ text, label = en.actions.copy }: { readonly text: string; readonly label?: string }) => (
  <button type="button" class="button quiet small" onClick={() => void copyText(text)}>
    {label}
  </button>
)

/** A line or block of code, with a button that copies it. */
export const Code = ({ text }: { readonly text: string }) => (
  <div class="code-box">
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached with the keyboard */}
    <pre class="code" tabIndex={0}>
      {text}
    </pre>
    <Copy text={text} />
  </div>
)

/** A time of the past; its absolute form is the title. */
export const Time = ({ at, children }: { readonly at: string | number; readonly children: ComponentChildren }) => {
  const date = new Date(at)
  return (
    <time
      dateTime={date.toISOString()}
      title={date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' })}
    >
      {children}
    </time>
  )
}
