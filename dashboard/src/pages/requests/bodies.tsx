/** The kept bodies of a request. Everything is a text node: bodies are what clients and providers sent. */

import { useSignal } from '@preact/signals'
import type { ComponentChild } from 'preact'
import { useMemo } from 'preact/hooks'
import type { KeptEvents, StoredBodies, StoredBody } from '../../../../src/usage/bodies/recorded-calls.ts'
import { hasRole, useResource } from '../../api.ts'
import { bytes, count } from '../../format.ts'
import { readBodies } from '../../kept-bodies.ts'
import { LineDifference } from '../../parts/line-difference.tsx'
import { Copy, Failed, Loading } from '../../parts/states.tsx'
import type { ListedAttempt } from '../../request-row.ts'
import { requests as w } from '../../words/requests.ts'
import { Conversation } from './conversation.tsx'

/** Characters that are shown at first. */
const SHOWN = 65_536

/** JSON with line breaks; other texts as they are. */
const indented = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

const KeptText = ({ body }: { readonly body: StoredBody }) => {
  const isWhole = useSignal(false)
  const { text, truncated, redacted, media } = body
  const shown = useMemo(() => (text === null ? null : truncated ? text : indented(text)), [text, truncated])
  if (shown === null) return <p class="dim">{w.sheet.noText}</p>
  const isCut = !isWhole.value && shown.length > SHOWN
  return (
    <div class="stack">
      <div class="row">
        <Copy text={text ?? ''} />
        {truncated && <span class="dim small">{w.sheet.truncated(bytes(text?.length ?? 0), bytes(body.bytes))}</span>}
        {redacted > 0 && <span class="dim small">{w.sheet.redacted(redacted)}</span>}
        {media > 0 && <span class="dim small">{w.sheet.media(media)}</span>}
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached with the keyboard */}
      <pre class="code body" tabIndex={0}>
        {isCut ? shown.slice(0, SHOWN) : shown}
      </pre>
      {isCut && (
        <button
          type="button"
          class="button small"
          onClick={() => {
            isWhole.value = true
          }}
        >
          {w.sheet.showAll(bytes(shown.length))}
        </button>
      )}
    </div>
  )
}

type FoldProps = { readonly title: string; readonly note?: string; readonly children: () => ComponentChild }

/** `children`: rendered while it is open. */
const Fold = ({ title, note, children }: FoldProps) => {
  const isOpen = useSignal(false)
  return (
    <details
      onToggle={({ currentTarget }) => {
        isOpen.value = currentTarget.open
      }}
    >
      <summary>
        <span class="fold-title">
          <bdi>{title}</bdi>
        </span>
        {note !== undefined && <span class="dim small">{note}</span>}
      </summary>
      {isOpen.value && children()}
    </details>
  )
}

const BodyFold = ({ title, body }: { readonly title: string; readonly body: StoredBody }) => (
  <Fold title={title} note={bytes(body.bytes)}>
    {() => <KeptText body={body} />}
  </Fold>
)

type ChangedProps = { readonly target: string; readonly before: StoredBody; readonly after: StoredBody }

/** How what was sent to a target differs from what the client sent, if both were kept whole. */
const Changed = ({ target, before, after }: ChangedProps) => {
  const [sent, received] = [after.text, before.text]
  if (received === null || sent === null || before.truncated || after.truncated) return null
  const label = w.sheet.changedFor(target)
  return (
    <Fold title={label}>
      {() =>
        received === sent ? (
          <p>{w.sheet.unchanged}</p>
        ) : (
          <LineDifference label={label} before={indented(received)} after={indented(sent)} />
        )
      }
    </Fold>
  )
}

// ── Headers and events ───────────────────────────────────────────────────────────────────────────────────────────────

type HeaderListProps = { readonly title: string; readonly headers: Readonly<Record<string, string>> }

const HeaderList = ({ title, headers }: HeaderListProps) => {
  const list = Object.entries(headers)
  if (list.length === 0) return null
  return (
    <section>
      <h4>
        <bdi>{title}</bdi>
      </h4>
      <dl class="facts kept-headers">
        {list.map(([name, value]) => (
          <div key={name}>
            <dt class="mono">{name}</dt>
            <dd class="mono">
              <bdi>{value}</bdi>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  )
}

type KeptProps = AttemptsOf & { readonly bodies: StoredBodies }

const Headers = ({ bodies, attempts }: KeptProps) => (
  <details>
    <summary>
      <span class="fold-title">{w.sheet.headers}</span>
    </summary>
    <div class="stack">
      <p class="dim small">{w.sheet.headersAbout}</p>
      <HeaderList title={w.sheet.headersOfClient} headers={bodies.headers} />
      {bodies.attempts.map(({ url, sent, received }, at) => {
        const name = attempts[at]?.provider ?? url
        return (
          <div key={at}>
            <HeaderList title={w.sheet.sentTo(name)} headers={sent} />
            <HeaderList title={w.sheet.answerOf(name)} headers={received} />
          </div>
        )
      })}
      {bodies.response && (
        <HeaderList title={w.sheet.headersOfResponse(bodies.response.status)} headers={bodies.response.headers} />
      )}
    </div>
  </details>
)

/** Rows of events that are shown at first. */
const FIRST_EVENTS = 200

const Events = ({ events: { types, list, omitted } }: { readonly events: KeptEvents }) => {
  const isWhole = useSignal(false)
  const shown = isWhole.value ? list : list.slice(0, FIRST_EVENTS)
  return (
    <details>
      <summary>
        <span class="fold-title">{w.sheet.events}</span>
        <span class="dim small">{count(list.length + omitted)}</span>
      </summary>
      <div class="stack">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached with the keyboard */}
        <section class="kept-events" tabIndex={0} aria-label={w.sheet.events}>
          <table class="num">
            <thead>
              <tr>
                <th scope="col">{w.sheet.eventTime}</th>
                <th scope="col">{w.sheet.eventSize}</th>
                <th scope="col">{w.sheet.eventType}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map(([ms, size, type], at) => (
                <tr key={at}>
                  <td>{ms.toFixed(1)}</td>
                  <td>{count(size)}</td>
                  <td class="mono">
                    <bdi>{types[type]}</bdi>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
        {shown.length < list.length && (
          <button
            type="button"
            class="button small"
            onClick={() => {
              isWhole.value = true
            }}
          >
            {w.sheet.allEvents(count(list.length))}
          </button>
        )}
        {omitted > 0 && <p class="dim small">{w.sheet.omittedEvents(count(omitted))}</p>}
      </div>
    </details>
  )
}

type AttemptsOf = { readonly attempts: readonly ListedAttempt[] }

const Folds = ({ bodies, attempts }: KeptProps) => (
  <>
    <BodyFold title={`${w.sheet.request} ${bodies.path}`} body={bodies.request} />
    {bodies.attempts.map(({ request, answer, url, complete }, at) => {
      const { provider: name = url, outcome = null } = attempts[at] ?? {}
      // An answer is used from its last event on; the end of its body may come later.
      const isCut = !complete && outcome !== 'ok'
      return (
        <div key={at}>
          <BodyFold title={w.sheet.sentTo(name)} body={request} />
          <Changed target={name} before={bodies.request} after={request} />
          <BodyFold title={w.sheet.answerOf(name)} body={answer} />
          {isCut && <p class="dim small">{w.sheet.incomplete}</p>}
        </div>
      )
    })}
    {bodies.response?.events && <Events events={bodies.response.events} />}
    <Headers bodies={bodies} attempts={attempts} />
  </>
)

/** Bodies are read when they are opened: each read is an entry of the audit log. */
export const Bodies = ({ id, attempts }: AttemptsOf & { readonly id: string }) => {
  const isOpen = useSignal(false)
  const { value, problem, reload } = useResource(isOpen.value ? id : null, () => readBodies(id), { isolated: true })
  if (!hasRole('operator')) return <p class="dim">{w.sheet.notAllowed}</p>
  return (
    <details
      onToggle={({ currentTarget }) => {
        if (currentTarget.open) isOpen.value = true
      }}
    >
      <summary>
        <span class="fold-title">{w.conversation.title}</span>
        <span class="dim small">{w.sheet.bodiesAudited}</span>
      </summary>
      <div class="stack sheet-bodies">
        {problem ? (
          <Failed problem={problem} retry={reload} />
        ) : value === undefined ? (
          <Loading rows={2} />
        ) : value === null ? (
          <p class="dim">{w.sheet.notKept}</p>
        ) : (
          <>
            <Conversation bodies={value} />
            <Fold title={w.conversation.json}>{() => <Folds bodies={value} attempts={attempts} />}</Fold>
          </>
        )}
      </div>
    </details>
  )
}
