/** Connect: the configuration of a client for this gateway, and what arrives from it. */

import { signal } from '@preact/signals'
import type { ComponentChild } from 'preact'
import { useCallback } from 'preact/hooks'
import type { AnswerStyle } from '../../../src/core/shown-answer.ts'
import type { SeenProblem, SeenRequest } from '../../../src/observe/clients-seen.ts'
import { valuesOf, withParam } from '../address.ts'
import { type ApiList, read, useResource } from '../api.ts'
import {
  type Address,
  isFrom,
  SDKS,
  SHELLS,
  type Shell,
  testLine,
  type Variable,
  variableLine,
  variablesIn,
} from '../connect/lines.ts'
import { age, duration } from '../format.ts'
import { lateRequest } from '../late-request.ts'
import { useLive } from '../live.ts'
import { Copy, Failed, Loading, PageHead, Time } from '../parts/states.tsx'
import { PREFIX } from '../root.ts'
import { current, go, isNarrow, now, pageHref, store, stored } from '../store.ts'
import { connect as texts } from '../words/connect.ts'
import { en } from '../words/en.ts'

type ListedClient = {
  readonly name: string
  readonly title: string
  readonly style: AnswerStyle
  readonly format: string
  readonly file: string | null
  readonly variable: string | null
  readonly fragment: string
  readonly note: string | null
}
type ClientList = {
  readonly data: readonly ListedClient[]
  readonly base_url: string
  readonly key: string
  readonly key_required: boolean
}
type SeenAnswer = Omit<SeenRequest, 'at'> & { readonly at: string }
type ListedFamily = {
  readonly family: string
  readonly requests: number
  readonly last: SeenAnswer
  readonly wrong: SeenAnswer | null
}

/** A client of the page: of the table of `headgate connect`, or an SDK. */
type Shown = {
  readonly name: string
  readonly title: string
  readonly style: AnswerStyle
  readonly client: ListedClient | null
  readonly variables: readonly Variable[]
  readonly program: string | null
}

/** ms between two readings of what has arrived. Refused requests make no event. */
const EVERY = 2_000
const MODEL = 'use'

const isShell = (text: string | undefined): text is Shell => SHELLS.some((shell) => shell === text)
const kept = stored('shell')
const shell = signal<Shell>(isShell(kept) ? kept : /Win/.test(navigator.platform) ? 'powershell' : 'sh')

const shownOf = ({ data, base_url: url, key }: ClientList, model: string): readonly Shown[] => [
  ...data.map((client) => {
    const { name, title, style, format, fragment } = client
    return { name, title, style, client, variables: variablesIn(format, fragment), program: null }
  }),
  ...SDKS.map(({ name, title, style, variables, program }) => {
    const address = { url, key, model }
    return { name, title, style, client: null, variables: variables(address), program: program?.(address) ?? null }
  }),
]

const Block = ({
  title,
  text,
  wraps = false,
  children,
}: {
  readonly title: string
  readonly text: string
  /** Long lines are broken, instead of scrolled. */
  readonly wraps?: boolean
  readonly children?: ComponentChild
}) => (
  <section class="connect-block">
    <div class="connect-block-head">
      <h3>{title}</h3>
      <Copy text={text} />
    </div>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached with the keyboard */}
    <pre class={wraps ? 'connect-code wraps' : 'connect-code'} tabIndex={0}>
      {text}
    </pre>
    {children}
  </section>
)

const ShellChoice = () => (
  <fieldset class="segments">
    <legend>{texts.shell}</legend>
    {SHELLS.map((one) => (
      <button
        key={one}
        type="button"
        aria-pressed={shell.value === one}
        onClick={() => {
          shell.value = one
          store('shell', one)
        }}
      >
        {texts.shells[one]}
      </button>
    ))}
  </fieldset>
)

const commandOf = ({ name }: ListedClient, { key, model }: Address, keyed: boolean): string =>
  ['headgate connect', name, ...(keyed ? ['--key', key] : []), ...(model === 'auto' ? [] : ['--model', model])].join(
    ' ',
  )

const Instructions = ({
  shown,
  list,
  model,
}: {
  readonly shown: Shown
  readonly list: ClientList
  readonly model: string
}) => {
  const { client, variables, program, style } = shown
  const address = { url: list.base_url, key: list.key, model }
  const isFile = client !== null && client.file !== null
  return (
    <div class="connect-instructions">
      {client && (
        <Block title={texts.command} text={commandOf(client, address, list.key_required)}>
          <p class="dim small">{texts.commandAbout}</p>
        </Block>
      )}
      {isFile && client.file !== null && (
        <Block title={texts.file(client.file)} text={client.fragment}>
          {client.variable !== null && <p class="dim small">{texts.fileVariable(client.variable)}</p>}
        </Block>
      )}
      {variables.length > 0 && (
        <Block
          title={client === null ? texts.variablesOnly : texts.variables}
          text={variables.map((variable) => variableLine(shell.value, variable)).join('\n')}
        />
      )}
      {program !== null && <Block title={texts.program} text={program} />}
      {client?.note && <p class="connect-note">{client.note}</p>}
      <Block
        wraps
        title={shown.name === 'curl' ? texts.send : texts.test}
        text={testLine(shell.value, style, address)}
      />
    </div>
  )
}

const explained = ({ kind, header, last4 }: SeenProblem, url: string): string => {
  if (kind === 'wrong_key') return texts.problem.wrong_key(header ?? '–', last4)
  return kind === 'doubled_path' ? texts.problem.doubled_path(url) : texts.problem[kind]
}

const Problem = ({ problem, url }: { readonly problem: SeenProblem; readonly url: string }) => (
  <>
    <p>{explained(problem, url)}</p>
    <p class="dim small">
      {texts.live.received}{' '}
      <q>
        <bdi>{problem.message}</bdi>
      </q>
    </p>
  </>
)

const ago = (at: string): string => age(Math.max(0, now.value - Date.parse(at)))

/** What became of a request, in one line. */
const Outcome = ({ request }: { readonly request: SeenAnswer }) => {
  const { outcome, status } = request
  if (outcome === 'under_way') return <span>{texts.live.underWay}</span>
  if (outcome === 'answered')
    return (
      <span class="ok">
        <span aria-hidden="true">✓ </span>
        {texts.live.answered}
      </span>
    )
  return (
    <span class="bad">
      <span aria-hidden="true">✗ </span>
      {outcome === 'refused' && status !== null ? texts.live.refused(status) : texts.live.failed(outcome)}
    </span>
  )
}

/** The last request of the chosen client, with what answered. */
const Arrived = ({ seen, url }: { readonly seen: ListedFamily; readonly url: string }) => {
  const { last, wrong, family, requests } = seen
  const isEnded = last.outcome !== 'under_way'
  const { value: entry } = useResource(isEnded && last.problem === null ? last.id : null, () => lateRequest(last.id), {
    isolated: true,
  })
  return (
    <>
      <p class="connect-outcome">
        <Outcome request={last} />{' '}
        {entry?.provider && entry.total_ms !== null && (
          <span>{texts.live.answeredBy(`${entry.provider}/${entry.model}`, duration(entry.total_ms))}</span>
        )}{' '}
        {entry && <a href={pageHref('requests', last.id)}>{texts.live.open}</a>}
      </p>
      <p class="dim">
        <Time at={last.at}>{texts.live.ago(ago(last.at))}</Time> ·{' '}
        <bdi class="mono">{`${last.method} ${last.path}`}</bdi>
        {last.model !== null && (
          <>
            {' '}
            · <bdi>{texts.live.model(last.model)}</bdi>
          </>
        )}{' '}
        · {texts.live.as(family)}
        {last.version !== null && ` ${last.version}`} · {texts.live.total(requests)}
      </p>
      {last.problem ? (
        <Problem problem={last.problem} url={url} />
      ) : (
        wrong?.problem && (
          <div class="connect-earlier">
            <p class="dim">{texts.live.earlier(ago(wrong.at))}</p>
            <p>
              <bdi class="mono">{`${wrong.method} ${wrong.path}`}</bdi>
            </p>
            <Problem problem={wrong.problem} url={url} />
          </div>
        )
      )}
      {!last.problem && last.outcome !== 'answered' && isEnded && entry?.message && <p dir="auto">{entry.message}</p>}
    </>
  )
}

const Others = ({ seen }: { readonly seen: readonly ListedFamily[] }) =>
  seen.length === 0 ? (
    <p class="dim">{texts.live.noOthers}</p>
  ) : (
    <ul class="connect-others">
      {seen.map(({ family, requests, last }) => (
        <li key={family}>
          <strong>{family}</strong>
          <span>
            <Outcome request={last} />
          </span>
          <bdi class="mono">{last.path}</bdi>
          <span class="dim">
            <Time at={last.at}>{texts.live.ago(ago(last.at))}</Time> · {texts.live.total(requests)}
          </span>
        </li>
      ))}
    </ul>
  )

const Live = ({ shown, url }: { readonly shown: Shown; readonly url: string }) => {
  const { value, problem, reload } = useResource('clients-seen', () => read<ApiList<ListedFamily>>('/clients/seen'), {
    every: EVERY,
  })
  useLive(
    ['requests'],
    useCallback(() => reload(), []),
  )
  if (!value) return problem ? <Failed problem={problem} retry={reload} /> : <Loading rows={2} />
  // The list begins with the latest.
  const chosen = value.data.find(({ family }) => isFrom(shown.name, family))
  return (
    <div class="connect-watch">
      <section class="connect-live" aria-labelledby="connect-live" data-came={chosen?.last.outcome}>
        <h2 id="connect-live">{texts.live.title}</h2>
        <div role="status">
          {chosen ? (
            <Arrived seen={chosen} url={url} />
          ) : (
            <>
              <p class="connect-outcome">
                <span class="connect-waiting" aria-hidden="true">
                  ◌{' '}
                </span>
                {texts.live.waiting(shown.title)}
              </p>
              <p class="dim">{texts.live.waitingAbout}</p>
            </>
          )}
        </div>
      </section>
      <section class="connect-rest" aria-labelledby="connect-rest">
        <h2 id="connect-rest">{texts.live.others}</h2>
        <Others seen={value.data.filter((one) => one !== chosen)} />
      </section>
    </div>
  )
}

const Choice = ({ all, chosen }: { readonly all: readonly Shown[]; readonly chosen: Shown }) => {
  if (isNarrow.value)
    return (
      <label class="field">
        {texts.choose}
        <select value={chosen.name} onChange={({ currentTarget }) => go({ ...current.value, id: currentTarget.value })}>
          {all.map(({ name, title }) => (
            <option key={name} value={name}>
              {title}
            </option>
          ))}
        </select>
      </label>
    )
  const links = (shown: readonly Shown[]) => (
    <ul>
      {shown.map(({ name, title }) => (
        <li key={name}>
          <a href={pageHref('connect', name)} aria-current={name === chosen.name ? 'true' : undefined}>
            {title}
          </a>
        </li>
      ))}
    </ul>
  )
  return (
    <nav class="connect-choice" aria-label={texts.clients}>
      <h2>{texts.programs}</h2>
      {links(all.filter(({ client }) => client !== null))}
      <h2>{texts.sdks}</h2>
      {links(all.filter(({ client }) => client === null))}
    </nav>
  )
}

const Model = ({ model }: { readonly model: string }) => (
  <label class="field connect-model">
    {texts.model}
    <input
      type="text"
      defaultValue={model}
      autocomplete="off"
      spellcheck={false}
      maxLength={200}
      title={texts.modelHint}
      onChange={({ currentTarget }) => {
        const name = currentTarget.value.trim()
        go(withParam(current.value, MODEL, name === '' || name === 'auto' ? [] : [name]))
      }}
    />
  </label>
)

export const Page = () => {
  const [model = 'auto'] = valuesOf(current.value, MODEL)
  const {
    value: list,
    problem,
    reload,
  } = useResource(`clients ${model}`, () => read<ClientList>('/clients', { model, prefix: PREFIX }))
  const title = <PageHead title={en.pages.connect} />
  if (!list)
    return (
      <>
        {title}
        {problem ? <Failed problem={problem} retry={reload} /> : <Loading />}
      </>
    )
  const all = shownOf(list, model)
  const { id } = current.value
  const [first] = all
  const chosen = all.find(({ name }) => name === id) ?? first
  if (!chosen) return title
  return (
    <>
      {title}
      {id !== null && id !== chosen.name && <p class="connect-note">{texts.noSuchClient(id)}</p>}
      <div class="connect">
        <Choice all={all} chosen={chosen} />
        <div class="connect-main">
          <div class="connect-setup">
            <div class="connect-head">
              <h2>{chosen.title}</h2>
              <Model key={model} model={model} />
              <ShellChoice />
            </div>
            <p class="dim">
              {list.key_required ? (
                <>
                  {texts.key.needed} <a href={pageHref('keys')}>{texts.key.create}</a>
                </>
              ) : (
                texts.key.none
              )}
            </p>
            <Instructions shown={chosen} list={list} model={model} />
          </div>
          <Live key={chosen.name} shown={chosen} url={list.base_url} />
        </div>
      </div>
    </>
  )
}
