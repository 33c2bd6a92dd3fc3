/** The details of a request: timeline, why it was routed so, cost, bodies; beside the list, or over it where there is no room. */

import { useSignal } from '@preact/signals'
import type { ComponentChild, ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { AttemptEntry, FoundRequest, RequestEntry } from '../../../../src/usage/reading/queries.ts'
import { placePath, shared, toPage, withParam } from '../../address.ts'
import { type ApiProblem, hasRole, read, useResource, write } from '../../api.ts'
import { addDollars, count, duration, fullTime, money } from '../../format.ts'
import { readBodies } from '../../kept-bodies.ts'
import { readLate, requestById } from '../../late-request.ts'
import { attempt, changeUserBlocked } from '../../parts/changing.tsx'
import { ageOf } from '../../parts/running-list.tsx'
import { Copy, copyText, Failed, Loading } from '../../parts/states.tsx'
import { Waterfall } from '../../parts/waterfall.tsx'
import { isOk, type ListedAttempt, type ListedRequest } from '../../request-row.ts'
import { PREFIX, ROOT } from '../../root.ts'
import { useRunning } from '../../running.ts'
import { bind } from '../../shortcuts.ts'
import { current, gatewayNow, go, pageHref, toast } from '../../store.ts'
import { en } from '../../words/en.ts'
import { requests as w } from '../../words/requests.ts'
import { Bodies } from './bodies.tsx'
import { OutcomeWord } from './cells.tsx'
import { curlOf } from './curl.ts'
import { Replay } from './replay.tsx'

/** ms for which a request is waited for that has just ended. */
const LATE = 3_000

const readDetail = async (id: string): Promise<RequestEntry> =>
  // Without it, the problem of the last reading is shown.
  (await readLate(() => requestById(id), { within: LATE })) ??
  (await read<RequestEntry>(`/requests/${encodeURIComponent(id)}`))

const Section = ({ title, children }: { readonly title: string; readonly children: ComponentChildren }) => (
  <section class="sheet-section">
    <h3>{title}</h3>
    {children}
  </section>
)

// ── Timeline ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const noteOf = (attempt: ListedAttempt & Partial<Pick<AttemptEntry, 'usage'>>): string => {
  const { first_content_ms, started_ms, ended_ms, usage, credential, hedge } = attempt
  const streaming = ended_ms === null || first_content_ms === null ? 0 : ended_ms - started_ms - first_content_ms
  const output = usage?.output ?? null
  return [
    ...(hedge ? [w.sheet.hedge] : []),
    ...(first_content_ms === null ? [] : [w.sheet.first(duration(first_content_ms))]),
    ...(output === null || !isOk(attempt) ? [] : [w.sheet.tokens(count(output))]),
    ...(output === null || streaming < 10 ? [] : [w.sheet.speed(count((output / streaming) * 1_000))]),
    ...(credential === undefined || credential === '' ? [] : [w.sheet.key(credential)]),
  ].join(' · ')
}

const Timeline = ({ request }: { readonly request: ListedRequest }) => {
  const { overhead_us, attempts, message, code } = request
  return (
    <Section title={w.sheet.waterfall}>
      {attempts.length === 0 ? (
        <p>
          <bdi>{message ?? w.noAttempt}</bdi>
        </p>
      ) : (
        <Waterfall request={request} noteOf={noteOf} />
      )}
      {code !== null && (
        <p>
          <a href={`${ROOT}docs/errors#${encodeURIComponent(code)}`}>{w.sheet.aboutCode(code)}</a>
        </p>
      )}
      {overhead_us !== null && <p class="dim small">{w.sheet.addedByUs(duration(overhead_us / 1_000))}</p>}
    </Section>
  )
}

// ── Why here ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const resolvedText = ({ asked, route, decision, attempts }: RequestEntry): string => {
  if (decision === null && attempts.length === 0) return w.sheet.by.none
  switch (decision?.by) {
    case undefined:
      return w.sheet.by.unknown
    case null:
      return w.sheet.by.none
    case 'route':
      return w.sheet.by.route(asked, route ?? asked)
    case 'provider':
      return w.sheet.by.provider(asked)
    case 'listed':
      return w.sheet.by.listed(asked)
    case 'default':
      return w.sheet.by.default(asked)
    default:
      return w.sheet.by.other(asked, String(decision?.by))
  }
}

const switchText = ({ act, from, cold, cost }: NonNullable<NonNullable<RequestEntry['decision']>['switch']>): string =>
  [w.sheet.switched[act](from), w.sheet.cold(cold), ...(cost === null ? [] : [costText(cost)])].join(', ')

const costText = (cost: string): string =>
  cost.startsWith('-') ? w.sheet.less(money(cost.slice(1))) : w.sheet.more(money(cost))

const Why = ({ request }: { readonly request: RequestEntry & Partial<FoundRequest> }) => {
  const { decision, attempts } = request
  const tried = new Set(attempts.map(({ provider, model }) => `${provider}/${model}`))
  const skipped = decision?.skipped ?? []
  const fate = (target: string): ComponentChild => {
    if (tried.has(target)) return <span class="badge">{w.sheet.tried}</span>
    const why = skipped.find((one) => one.target === target)?.why
    return <span class="dim">{why === undefined ? w.sheet.notNeeded : w.sheet.leftOut(why.replaceAll('_', ' '))}</span>
  }
  const plan = decision?.plan ?? []
  const outside = skipped.filter(({ target }) => !plan.includes(target))
  return (
    <Section title={w.sheet.why}>
      <p>
        <bdi>{resolvedText(request)}</bdi>
      </p>
      {plan.length > 0 && (
        <ol class="plan">
          {plan.map((target) => (
            <li key={target}>
              <bdi class="mono">{target}</bdi> {fate(target)}
            </li>
          ))}
          {outside.map(({ target, key, why }) => (
            <li key={`${target} ${key}`} class="left-out">
              <bdi class="mono">{target}</bdi>{' '}
              <span class="dim">
                {key !== null && `${w.sheet.skippedKey(key)}, `}
                {w.sheet.leftOut(why.replaceAll('_', ' '))}
              </span>
            </li>
          ))}
        </ol>
      )}
      {decision !== null && decision.more > 0 && <p class="dim">{w.sheet.morePlanned(decision.more)}</p>}
      {decision?.limit != null && (
        <p class="bad">
          {request.limited_by && (
            <>
              <a href={pageHref('keys')}>{w.sheet.limitOf(request.limited_by.name)}</a>.{' '}
            </>
          )}
          {w.sheet.limit(decision.limit)}
        </p>
      )}
      {decision?.switch && <p>{switchText(decision.switch)}</p>}
      {decision !== null && decision.dropped.length > 0 && (
        <p>
          {w.sheet.dropped}: <bdi class="mono">{decision.dropped.join(', ')}</bdi>
        </p>
      )}
    </Section>
  )
}

// ── Cost ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

const tokensText = ({ usage }: Pick<AttemptEntry, 'usage'>): string => {
  const { input, output, cache_read, cache_write, reasoning } = usage
  const parts = [
    [w.costParts.input, input],
    [w.costParts.cacheRead, cache_read],
    [w.costParts.cacheWrite, cache_write],
    [w.costParts.output, output],
    [w.costParts.reasoning, reasoning],
  ] as const
  return parts.flatMap(([label, n]) => (n === null || n === 0 ? [] : [`${count(n)} ${label}`])).join(' + ')
}

const Cost = ({ request }: { readonly request: RequestEntry }) => {
  const { attempts, saved } = request
  const isCharged = ({ cost, usage }: AttemptEntry) =>
    /[1-9]/.test(cost ?? '') || (usage.input ?? 0) > 0 || (usage.output ?? 0) > 0
  const charged = attempts.filter(isCharged)
  const lost = attempts.filter((attempt) => !isOk(attempt)).flatMap(({ cost }) => cost ?? [])
  const isLoss = lost.some((cost) => /[1-9]/.test(cost))
  const isSaved = /[1-9]/.test(saved)
  return (
    <Section title={w.sheet.cost}>
      {charged.length === 0 && <p class="dim">{w.sheet.nothing}</p>}
      <ul class="cost-lines">
        {charged.map((attempt) => {
          const { n, provider, cost, usage, price } = attempt
          const tokens = tokensText(attempt)
          return (
            <li key={n}>
              <bdi>{provider}</bdi>{' '}
              <span class="num">
                {tokens === '' ? '' : `${tokens} = `}
                <strong>{cost === null ? en.states.unknown : money(cost)}</strong>
              </span>{' '}
              <span class="dim small">
                {[
                  ...(usage.source === null ? [] : [usage.source === 'exact' ? w.sheet.exact : w.sheet.estimated]),
                  ...(price.source === 'none'
                    ? []
                    : [w.sheet.price(price.source, price.version?.replace(/^.*:/, '') ?? '')]),
                ].join(' · ')}
              </span>
            </li>
          )
        })}
      </ul>
      {isLoss && (
        <p class="bad num">
          {money(addDollars(lost))} {w.sheet.lostCost}
        </p>
      )}
      {isSaved && <p class="num">{w.sheet.saved(money(saved))}</p>}
    </Section>
  )
}

// ── Facts ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const TeamLink = ({ id, name }: NonNullable<RequestEntry['team']>) => (
  <a href={pageHref('teams', id)}>
    <bdi>{name ?? id}</bdi>
  </a>
)

const BlockUser = ({ name }: { readonly name: string }) => (
  <button type="button" class="button quiet small" onClick={() => void changeUserBlocked({ name }, true)}>
    {w.blockUser}
  </button>
)

/** Stops or resumes a session at all gateways, with an undo. */
const setStopped = (id: string, isStopped: boolean): Promise<boolean> =>
  attempt(async () => {
    await write('POST', `/sessions/${id}/${isStopped ? 'stop' : 'resume'}`, isStopped ? {} : undefined)
    toast((isStopped ? w.sessionStopped : w.sessionResumed)(id), { undo: () => void setStopped(id, !isStopped) })
  })

const SessionLinks = ({ id }: { readonly id: string }) => (
  <>
    <a href={placePath(withParam(toPage(current.value, 'requests'), 'session', [id]))}>{w.sessionRequests}</a>{' '}
    {hasRole('operator', 'all') && (
      <button type="button" class="button quiet small" onClick={() => void setStopped(id, true)}>
        {w.stopSession}
      </button>
    )}
  </>
)

const TraceLink = ({ url }: { readonly url: string }) => (
  <a href={url} target="_blank" rel="noopener noreferrer">
    {w.openTrace}
  </a>
)

const Facts = ({ request }: { readonly request: RequestEntry & Partial<FoundRequest> }) => {
  const {
    key,
    team,
    end_user,
    session,
    agent,
    tags,
    cache,
    client,
    trace,
    trace_url,
    node,
    style,
    stream,
    received_at,
    client_request_id,
  } = request
  const tagText = Object.entries(tags)
    .map(([name, value]) => `${name}:${value}`)
    .join(' ')
  const rows: readonly (readonly [label: string, value: string | null | undefined, action?: ComponentChild])[] = [
    [w.sheet.facts.received, fullTime(Date.parse(received_at))],
    [w.sheet.facts.clientId, client_request_id],
    [w.sheet.facts.sameClientId, (request.same_client_id ?? []).map(({ id }) => id).join(' ') || null],
    [w.sheet.facts.client, client],
    [w.sheet.facts.style, `${style}, ${stream ? w.sheet.facts.streamed : w.sheet.facts.whole}`],
    [w.sheet.facts.key, key === null ? w.noKey : `${key.name ?? ''} ${key.id}`.trim()],
    [w.sheet.facts.team, team === null ? null : '', team !== null && <TeamLink {...team} />],
    [w.sheet.facts.endUser, end_user, end_user !== null && hasRole('operator', 'all') && <BlockUser name={end_user} />],
    [w.sheet.facts.session, session, session != null && <SessionLinks id={session} />],
    [w.sheet.facts.agent, agent],
    [w.sheet.facts.tags, tagText === '' ? null : tagText],
    [w.sheet.facts.cache, cache],
    [w.sheet.facts.trace, trace ?? (trace_url == null ? null : ''), trace_url != null && <TraceLink url={trace_url} />],
    [w.sheet.facts.node, node],
  ]
  return (
    <Section title={w.sheet.details}>
      <dl class="facts">
        {rows.flatMap(([label, value, action]) =>
          value == null
            ? []
            : [
                <div key={label}>
                  <dt>{label}</dt>
                  <dd>
                    <bdi>{value}</bdi> {action}
                  </dd>
                </div>,
              ],
        )}
      </dl>
    </Section>
  )
}

const LogLine = ({ request }: { readonly request: RequestEntry }) => {
  const text = JSON.stringify(request)
  return (
    <details>
      <summary>{w.sheet.logLine}</summary>
      <div class="stack">
        <div class="row">
          <Copy text={text} label={w.sheet.copyLog} />
        </div>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached with the keyboard */}
        <pre class="code body" tabIndex={0}>
          {JSON.stringify(request, null, 2)}
        </pre>
      </div>
    </details>
  )
}

// ── Sheet ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const close = (): void => go({ ...current.value, id: null })

export type SheetProps = { readonly id: string; readonly rows: readonly ListedRequest[] }

/** Moves to the request before or after this one in the list. */
const step = ({ id, rows }: SheetProps, by: 1 | -1): void => {
  const at = rows.findIndex((row) => row.id === id)
  const next = at < 0 ? undefined : rows[at + by]
  if (next) go({ ...current.value, id: next.id }, 'replace')
}

type HeadProps = SheetProps & { readonly row: ListedRequest | undefined; readonly detail: RequestEntry | undefined }

/** The actions of a request, bound to their shortcuts. */
const useActions = ({ id, rows, row, detail }: HeadProps) => {
  const isReplaying = useSignal(false)
  const problem = hasRole('operator', 'all') ? null : w.replay.needsRole
  const replay = () => {
    if (!detail) return
    if (problem === null) isReplaying.value = true
    else toast(problem, { tone: 'bad' })
  }
  const edit = () => go({ page: 'playground', id: null, from: null, to: null, params: { request: [id] } })
  const link = () => void copyText(`${location.origin}${placePath(shared(current.value, gatewayNow()))}`)
  const curl = async () => {
    // Without its body, the command has one of the same shape.
    const bodies = hasRole('operator') ? await readBodies(id).catch(() => null) : null
    if (row) await copyText(curlOf(row, bodies, location.origin + PREFIX))
  }
  const actions = {
    replay,
    edit,
    link,
    curl: () => void curl(),
    older: () => step({ id, rows }, 1),
    newer: () => step({ id, rows }, -1),
  }
  const latest = useRef(actions)
  latest.current = actions
  useEffect(() => {
    const names = ['replay', 'edit', 'link', 'curl', 'older', 'newer'] as const
    const bound = [...names.map((name) => bind(name, () => latest.current[name]())), bind('close', close)]
    return () => {
      for (const unbind of bound) unbind()
    }
  }, [])
  return { actions, isReplaying, problem }
}

type Actions = ReturnType<typeof useActions>['actions']

/** The ID, and buttons for the neighbours and for closing. */
const SheetBar = ({ id, actions }: { readonly id: string; readonly actions: Actions }) => (
  <div class="sheet-bar">
    <button
      type="button"
      class="icon"
      aria-label={en.actions.close}
      title={`${en.actions.close} (Esc)`}
      onClick={close}
    >
      ×
    </button>
    <span class="mono small cut" title={id}>
      {id}
    </span>
    <span class="sheet-steps">
      <button
        type="button"
        class="icon"
        aria-label={w.sheet.newer}
        title={`${w.sheet.newer} ([)`}
        onClick={actions.newer}
      >
        ↑
      </button>
      <button
        type="button"
        class="icon"
        aria-label={w.sheet.older}
        title={`${w.sheet.older} (])`}
        onClick={actions.older}
      >
        ↓
      </button>
    </span>
  </div>
)

const SheetTitle = ({ row }: { readonly row: ListedRequest }) => (
  <>
    <h2 class="sheet-title">
      <bdi>{row.asked}</bdi>
      {row.provider !== null && (
        <span class="dim">
          {' → '}
          <bdi>{`${row.provider}/${row.model ?? ''}`}</bdi>
        </span>
      )}
    </h2>
    <p class="sheet-facts num">
      <OutcomeWord request={row} />
      {row.total_ms !== null && <span>{duration(row.total_ms)}</span>}
      {row.cost !== null && <span>{money(row.cost)}</span>}
      <span class="dim">{fullTime(Date.parse(row.received_at))}</span>
    </p>
  </>
)

const SheetHead = (props: HeadProps) => {
  const { id, row, detail } = props
  const { actions, isReplaying, problem } = useActions(props)
  return (
    <header class="sheet-head">
      <SheetBar id={id} actions={actions} />
      {row && <SheetTitle row={row} />}
      <div class="row">
        <button
          type="button"
          class="button small"
          disabled={!detail || problem !== null}
          title={problem ?? `${w.sheet.replay} (r)`}
          onClick={actions.replay}
        >
          {w.sheet.replay}
        </button>
        <button type="button" class="button small" title={`${en.keys.edit} (e)`} onClick={actions.edit}>
          {w.sheet.edit}
        </button>
        <button type="button" class="button small" title={`${en.keys.curl} (.)`} onClick={actions.curl}>
          {w.sheet.curl}
        </button>
        <button type="button" class="button small" title={`${en.keys.link} (c)`} onClick={actions.link}>
          {w.sheet.link}
        </button>
      </div>
      {isReplaying.value && detail && (
        <Replay
          request={detail}
          onClose={() => {
            isReplaying.value = false
          }}
        />
      )}
    </header>
  )
}

type NotEndedProps = { readonly id: string; readonly problem: ApiProblem; readonly reload: () => void }

/** A request that is not in the ledger: it is under way, or unknown. */
const NotEnded = ({ id, problem, reload }: NotEndedProps) => {
  const { running } = useRunning()
  const found = running?.find(({ request }) => request === id)
  const isRunning = found !== undefined
  const was = useRef(isRunning)
  useEffect(() => {
    if (was.current && !isRunning) reload()
    was.current = isRunning
  }, [isRunning])
  if (!running) return <Loading rows={2} />
  if (found)
    return (
      <p role="status">
        <bdi>{w.running.now(`${found.provider}/${found.model}`, ageOf(found))}</bdi>
      </p>
    )
  return <Failed problem={{ ...problem, message: w.sheet.notFound }} retry={reload} />
}

export const Sheet = ({ id, rows }: SheetProps) => {
  const { value, problem, isLoading, reload } = useResource(id, () => readDetail(id), { isolated: true })
  const panel = useRef<HTMLElement>(null)
  // The ID may be the one that the client gave.
  const detail = value?.id === id || value?.client_request_id === id ? value : undefined
  // What the list has is shown at once.
  const row: ListedRequest | undefined = detail ?? rows.find((one) => one.id === id)
  useEffect(() => {
    panel.current?.scrollTo({ top: 0 })
    panel.current?.focus({ preventScroll: true })
  }, [id])
  return (
    <aside ref={panel} class="sheet" aria-label={w.sheet.label} tabIndex={-1} aria-busy={isLoading}>
      <SheetHead id={id} rows={rows} row={row} detail={detail} />
      {row && <Timeline request={row} />}
      {detail ? (
        <>
          <Why request={detail} />
          <Cost request={detail} />
          <Facts request={detail} />
          <section>
            <Bodies key={id} id={id} attempts={detail.attempts} />
            <LogLine request={detail} />
          </section>
        </>
      ) : problem?.status === 404 ? (
        <NotEnded id={id} problem={problem} reload={reload} />
      ) : problem ? (
        <Failed problem={problem} retry={reload} />
      ) : (
        <Loading rows={5} />
      )}
    </aside>
  )
}
