/** The first steps: shown on the overview until a provider has answered a request. */

import { useSignal } from '@preact/signals'
import type { ComponentChild } from 'preact'
import { useCallback } from 'preact/hooks'
import type { SeenClient } from '../../../src/observe/clients-seen.ts'
import type { RequestEntry } from '../../../src/usage/reading/queries.ts'
import { type ApiList, callModel, hasRole, offlineSince, problemIn, read, useResource } from '../api.ts'
import type { FirstRunFacts } from '../first-run-facts.ts'
import { duration } from '../format.ts'
import { useLive } from '../live.ts'
import { PREFIX } from '../root.ts'
import { pageHref } from '../store.ts'
import { en } from '../words/en.ts'
import { firstRun as texts } from '../words/first-run.ts'
import { Copy } from './states.tsx'

/** ms between two readings; events come sooner. */
const EVERY = 10_000

type Sent = 'no' | 'sending' | { readonly id: string | null; readonly by: string; readonly ms: number } | Error

/** A button that sends a request to a model of the demo, and what came of it. */
const DemoButton = ({
  model,
  label,
  isNext = false,
}: {
  readonly model: string
  readonly label: string
  readonly isNext?: boolean
}) => {
  const sent = useSignal<Sent>('no')
  const send = async () => {
    sent.value = 'sending'
    const began = performance.now()
    const body = { model, messages: [{ role: 'user', content: 'Hello' }] }
    try {
      const response = await callModel('/chat/completions', body, new AbortController().signal)
      const answer = await response.json()
      if (!response.ok) throw new Error(String(answer.error?.message ?? `HTTP ${response.status}`))
      const { headers } = response
      const by = `${headers.get('x-headgate-provider')}/${headers.get('x-headgate-model')}`
      sent.value = { id: headers.get('x-request-id'), by, ms: performance.now() - began }
    } catch (error) {
      sent.value = new Error(error instanceof Error ? error.message : problemIn(error).message)
    }
  }
  const why = hasRole('operator', 'all')
    ? offlineSince.value === null
      ? null
      : en.states.offlineWrite
    : texts.notAllowed
  const now = sent.value
  return (
    <div class="first-run-send">
      <button
        type="button"
        class={isNext ? 'button primary' : 'button'}
        disabled={now === 'sending' || why !== null}
        onClick={() => void send()}
      >
        {now === 'sending' ? texts.send.sending : label}
      </button>
      <span role="status">
        {why}
        {now instanceof Error && <span class="bad">{texts.failed(now.message)}</span>}
        {typeof now === 'object' && !(now instanceof Error) && (
          <>
            <span aria-hidden="true" class="ok">
              ✓{' '}
            </span>
            {texts.answered(now.by, duration(now.ms))}{' '}
            {now.id !== null && <a href={pageHref('requests', now.id)}>{texts.openRequest}</a>}
          </>
        )}
      </span>
    </div>
  )
}

const CopyLine = ({ text }: { readonly text: string }) => (
  <p class="first-run-line">
    <code>{text}</code>
    <Copy text={text} />
  </p>
)

type StepProps = {
  readonly isDone: boolean
  readonly title: string
  readonly children: ComponentChild
}

const Step = ({ isDone, title, children }: StepProps) => (
  <li class="first-run-step" data-done={isDone || undefined}>
    <span
      class={isDone ? 'first-run-mark ok' : 'first-run-mark'}
      role="img"
      aria-label={isDone ? texts.done : texts.open}
    >
      {isDone ? '✓' : '○'}
    </span>
    <div class="first-run-body">
      <h3>{title}</h3>
      {children}
    </div>
  </li>
)

const CLIENTS = [
  ['claude', 'Claude Code'],
  ['codex', 'Codex CLI'],
  ['openai-sdk', 'OpenAI SDK'],
  ['anthropic-sdk', 'Anthropic SDK'],
  ['curl', 'curl'],
] as const

/** Steps that tick themselves. `facts`: of `useFirstRun`. */
export const FirstRun = ({ facts: { providers, hasDemo } }: { readonly facts: FirstRunFacts }) => {
  const { value, reload } = useResource(
    'first-run-steps',
    async () => {
      const [answered, seen] = await Promise.all([
        read<ApiList<RequestEntry>>('/requests', { outcome: 'answered', limit: 1 }),
        // Clients are those of all teams.
        hasRole('viewer', 'all') ? read<ApiList<SeenClient>>('/clients/seen') : null,
      ])
      const families = (seen?.data ?? []).filter(({ last }) => last.outcome === 'answered').map(({ family }) => family)
      return { hasAnswer: answered.data.length > 0, families }
    },
    { every: EVERY },
  )
  useLive(
    ['requests'],
    useCallback(() => reload(), []),
  )
  const { hasAnswer = false, families = [] } = value ?? {}
  return (
    <section class="first-run" aria-labelledby="first-run-title">
      <h2 id="first-run-title">{texts.title}</h2>
      <ol class="first-run-steps">
        <Step isDone={hasAnswer} title={texts.send.title}>
          <p class="dim">{hasDemo ? texts.send.demo : texts.send.real}</p>
          {hasDemo ? (
            <DemoButton model="demo/echo" label={texts.send.button} isNext={!hasAnswer} />
          ) : (
            <p>
              <a href={pageHref('playground')}>{texts.send.playground}</a>
            </p>
          )}
        </Step>
        <Step isDone={providers.length > 0} title={texts.provider.title}>
          {providers.length > 0 ? (
            <p class="dim">{texts.provider.have(providers.join(', '))}</p>
          ) : (
            <>
              <p class="dim">{texts.provider.about}</p>
              <CopyLine text="OPENAI_API_KEY=sk-… npm start" />
              <CopyLine text="OLLAMA_BASE_URL=http://localhost:11434 npm start" />
            </>
          )}
        </Step>
        <Step isDone={families.length > 0} title={texts.client.title}>
          <p class="dim">{families.length > 0 ? texts.client.seen(families.join(', ')) : texts.client.about}</p>
          <p class="first-run-clients">
            {CLIENTS.map(([name, title]) => (
              <a key={name} href={pageHref('connect', name)}>
                {title}
              </a>
            ))}
            <a href={pageHref('connect')}>{texts.client.more}</a>
          </p>
          <CopyLine text={`export OPENAI_BASE_URL=${location.origin}${PREFIX}/v1`} />
        </Step>
      </ol>
      {hasDemo && (
        <div class="first-run-chain">
          <h3>{texts.chain.title}</h3>
          <p class="dim">{texts.chain.about}</p>
          <DemoButton model="demo/chain" label={texts.chain.button} />
        </div>
      )}
    </section>
  )
}
