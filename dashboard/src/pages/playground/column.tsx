/** A column of the playground: a model, its answer, and what it took. */
import { useSignal } from '@preact/signals'
import type { ComponentChild } from 'preact'
import { useEffect } from 'preact/hooks'
import type { ShownAnswer } from '../../../../src/core/shown-answer.ts'
import type { AttemptEntry } from '../../../../src/usage/reading/queries.ts'
import { compact, duration, money } from '../../format.ts'
import { Combobox, type Suggestion } from '../../parts/combobox.tsx'
import { Unknown } from '../../parts/states.tsx'
import { useId } from '../../parts/use-id.ts'
import { useEstimate } from '../../playground/estimate.ts'
import type { Run } from '../../playground/run.ts'
import {
  columns,
  isChecked,
  isRendered,
  type PlaygroundColumn,
  removeColumn,
  settings,
} from '../../playground/state.ts'
import { pageHref } from '../../store.ts'
import { playground as texts } from '../../words/playground.ts'

/** ms between the first token and the end, below which the rate would say nothing about the model. */
const SHORTEST = 50

/** Tokens of the answer per second after the first one; null: it cannot be measured. */
export const rateOf = ({ answer, firstMs, totalMs }: Run): number | null => {
  if (!answer.usage || firstMs === null || totalMs === null || totalMs - firstMs < SHORTEST) return null
  return answer.usage.output / ((totalMs - firstMs) / 1_000)
}

const stateText = ({ state, status, answer }: Run): string => {
  if (state === 'running') return answer.text === '' ? texts.running : texts.streaming
  if (state === 'failed') return status === null || status < 400 ? texts.failed : texts.failedStatus(status)
  if (state === 'idle') return texts.idle
  return state === 'done' ? texts.done : texts.stopped
}
const SHAPES = { idle: '○', running: '◌', done: '✓', failed: '✗', stopped: '■' } as const
const TONES = { idle: 'dim', running: 'dim', done: 'ok', failed: 'bad', stopped: 'warn' } as const

type MarkdownPart = { readonly Markdown: (props: { readonly text: string }) => ComponentChild }

/** The text of an answer; as Markdown once it is whole, if that is wanted. */
const AnswerText = ({ text, isWhole }: { readonly text: string; readonly isWhole: boolean }) => {
  const part = useSignal<MarkdownPart | null>(null)
  const isWanted = isRendered.value
  useEffect(() => {
    if (!isWanted) return
    void import('../../parts/markdown.ts').then((module) => {
      part.value = module
    })
  }, [isWanted, part])
  const { Markdown } = part.value ?? {}
  return isWanted && isWhole && Markdown ? (
    <div class="playground-text markdown" dir="auto" data-answer>
      <Markdown text={text} />
    </div>
  ) : (
    <div class="playground-text" dir="auto" data-answer>
      {text}
    </div>
  )
}

const Content = ({ answer, run }: { readonly answer: ShownAnswer; readonly run: Run }) => {
  const calls = Object.entries(answer.calls)
  const isEmpty = run.state === 'done' && answer.text === '' && calls.length === 0
  return (
    <>
      {answer.reasoning !== '' && (
        <details class="playground-reasoning">
          <summary>{texts.reasoning}</summary>
          <div class="playground-text" dir="auto">
            {answer.reasoning}
          </div>
        </details>
      )}
      {answer.text !== '' && <AnswerText text={answer.text} isWhole={run.state !== 'running'} />}
      {calls.map(([index, { name, arguments: given }]) => (
        <div key={index}>
          <p class="small dim">
            <bdi>{texts.call(name)}</bdi>
          </p>
          <pre class="playground-json">{given}</pre>
        </div>
      ))}
      {isEmpty && <p class="dim">{texts.empty}</p>}
      {run.error !== null && (
        <>
          <p class="small dim">{texts.received}</p>
          <pre class="playground-json">{run.error}</pre>
        </>
      )}
    </>
  )
}

const Attempt = ({ attempt: { provider, model, outcome, kind } }: { readonly attempt: AttemptEntry }) => (
  <li>
    <bdi>{`${provider}/${model}`}</bdi>{' '}
    {outcome === 'ok' ? <span class="ok">✓</span> : <span class="bad">✗ {kind?.replaceAll('_', ' ')}</span>}
  </li>
)

const Fact = ({ label, children }: { readonly label: string; readonly children: ComponentChild }) => (
  <div>
    <dt>{label}</dt>
    <dd class="num">{children}</dd>
  </div>
)

const Facts = ({ run }: { readonly run: Run }) => {
  const { firstMs, totalMs, answer, record, state } = run
  if (state === 'idle') return null
  const rate = rateOf(run)
  const unknown = <Unknown why={state === 'running' ? texts.pending : texts.noUsage} />
  return (
    <>
      <dl class="playground-facts">
        <Fact label={texts.first}>{firstMs === null ? <Unknown why={texts.pending} /> : duration(firstMs)}</Fact>
        <Fact label={texts.total}>{totalMs === null ? <Unknown why={texts.pending} /> : duration(totalMs)}</Fact>
        <Fact label={texts.rate}>{rate === null ? <Unknown why={texts.noRate} /> : compact(rate)}</Fact>
        <Fact label={texts.tokens}>
          {answer.usage ? texts.tokensOf(compact(answer.usage.input), compact(answer.usage.output)) : unknown}
        </Fact>
        <Fact label={texts.cost}>
          {record?.cost ? money(record.cost) : <Unknown why={record ? texts.noCost : texts.pending} />}
        </Fact>
      </dl>
      {record && record.attempts.length > 0 && (
        <ol class="playground-attempts" aria-label={texts.attempts}>
          {record.attempts.map((attempt) => (
            <Attempt key={attempt.n} attempt={attempt} />
          ))}
        </ol>
      )}
      {run.id !== null && (
        <p class="small">
          <a href={pageHref('requests', run.id)}>{texts.openRequest}</a>
        </p>
      )}
    </>
  )
}

/** What the request would cost; nothing while that is not known. */
const Estimated = ({ model }: { readonly model: string }) => {
  const found = useEstimate(settings.value, model)
  return (
    <p class="dim small num" data-estimate={found !== null || undefined}>
      {found === null
        ? '\u00a0'
        : found.cost === null
          ? texts.noEstimate(found.target)
          : texts.estimate(money(found.cost), found.target)}
    </p>
  )
}

type ColumnProps = {
  readonly column: PlaygroundColumn
  readonly number: number
  readonly models: readonly Suggestion[]
  readonly onModels: () => void
}

export const AnswerColumn = ({ column, number, models, onModels }: ColumnProps) => {
  const id = useId()
  const run = column.run.value
  const isMissing = isChecked.value && column.model.value.trim() === ''
  return (
    <section class="playground-column" aria-label={texts.columnOf(number)} data-state={run.state}>
      <div class="playground-model">
        <label class="sr-only" for={id}>
          {texts.model}
        </label>
        <Combobox
          id={id}
          value={column.model.value}
          suggestions={models}
          label={texts.models}
          placeholder={texts.model}
          isInvalid={isMissing}
          onInput={(model) => {
            column.model.value = model
          }}
          onChange={onModels}
        />
        {columns.value.length > 1 && (
          <button
            type="button"
            class="icon"
            aria-label={texts.removeColumn(number)}
            onClick={() => {
              removeColumn(column.id)
              onModels()
            }}
          >
            ×
          </button>
        )}
      </div>
      {isMissing && <p class="bad small">{texts.wrong.model}</p>}
      <Estimated model={column.model.value} />
      <p class={`playground-state ${TONES[run.state]}`}>
        <span aria-hidden="true">{SHAPES[run.state]} </span>
        {stateText(run)}
        {run.answer.finish !== null && <span class="dim"> · {texts.ended(run.answer.finish)}</span>}
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached with the keyboard */}
      <section class="playground-answer" tabIndex={0} aria-label={texts.columnOf(number)}>
        <Content answer={run.answer} run={run} />
      </section>
      <Facts run={run} />
    </section>
  )
}
