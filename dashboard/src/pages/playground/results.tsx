/** Below the columns of the playground: comparison, difference, programs and history. */

import { signal } from '@preact/signals'
import { read, useResource } from '../../api.ts'
import { compact, duration, moment, money } from '../../format.ts'
import { copyText, Time } from '../../parts/states.tsx'
import { TextDifference } from '../../parts/text-difference.tsx'
import { SNIPPETS, snippet } from '../../playground/snippets.ts'
import {
  clearHistory,
  columns,
  history,
  type PlaygroundColumn,
  restore,
  setKeeping,
  settings,
  wrong,
} from '../../playground/state.ts'
import { PREFIX } from '../../root.ts'
import { playground as texts } from '../../words/playground.ts'
import { rateOf } from './column.tsx'

const nameOf = (column: PlaygroundColumn): string => column.model.value

type Measure = {
  readonly label: string
  readonly value: (column: PlaygroundColumn) => number | null
  readonly show: (column: PlaygroundColumn, value: number) => string
}

const MEASURES: readonly Measure[] = [
  { label: texts.first, value: ({ run }) => run.value.firstMs, show: (_, value) => duration(value) },
  { label: texts.total, value: ({ run }) => run.value.totalMs, show: (_, value) => duration(value) },
  { label: texts.rate, value: ({ run }) => rateOf(run.value), show: (_, value) => compact(value) },
  {
    label: texts.cost,
    // For the length of the bar only.
    value: ({ run }) => (run.value.record?.cost ? Number(run.value.record.cost) : null),
    show: ({ run }) => money(run.value.record?.cost ?? '0'),
  },
]

const Comparison = ({ ended }: { readonly ended: readonly PlaygroundColumn[] }) => (
  <section class="playground-part" aria-labelledby="playground-compare">
    <h2 id="playground-compare">{texts.compare}</h2>
    <div class="playground-measures">
      {MEASURES.filter(({ value }) => ended.some((column) => value(column) !== null)).map(({ label, value, show }) => {
        const most = Math.max(...ended.map((column) => value(column) ?? 0), Number.MIN_VALUE)
        return (
          <dl key={label}>
            <dt>{label}</dt>
            {ended.map((column) => {
              const size = value(column)
              return (
                <dd key={column.id}>
                  <bdi class="playground-name">{nameOf(column)}</bdi>
                  <span class="playground-bar" aria-hidden="true">
                    <span style={{ inlineSize: `${size === null ? 0 : Math.round((size / most) * 100)}%` }} />
                  </span>
                  <span class="num">{size === null ? '–' : show(column, size)}</span>
                </dd>
              )
            })}
          </dl>
        )
      })}
    </div>
  </section>
)

const compared = signal<readonly [from: number, to: number]>([0, 1])

const Difference = ({ ended }: { readonly ended: readonly PlaygroundColumn[] }) => {
  const [from, to] = compared.value
  const [one, other] = [ended[from] ?? ended[0], ended[to] ?? ended[1]]
  if (!one || !other) return null
  const choice = (label: string, chosen: PlaygroundColumn, choose: (at: number) => void) => (
    <label class="playground-choice">
      {label}
      <select
        value={String(ended.indexOf(chosen))}
        onChange={({ currentTarget }) => choose(Number(currentTarget.value))}
      >
        {ended.map((column, at) => (
          <option key={column.id} value={String(at)}>
            {nameOf(column)}
          </option>
        ))}
      </select>
    </label>
  )
  return (
    <details class="playground-part">
      <summary>{texts.difference}</summary>
      {ended.length > 2 && (
        <div class="row">
          {choice(texts.from, one, (at) => {
            compared.value = [at, ended.indexOf(other)]
          })}
          {choice(texts.to, other, (at) => {
            compared.value = [ended.indexOf(one), at]
          })}
        </div>
      )}
      <p class="dim small">
        <bdi>{texts.differenceOf(nameOf(one), nameOf(other))}</bdi>
      </p>
      <TextDifference first={one.run.value.answer.text} second={other.run.value.answer.text} />
    </details>
  )
}

const Programs = () => {
  const { value } = useResource('connection', () =>
    read<{ readonly base_url: string; readonly key: string }>('/clients', { prefix: PREFIX }),
  )
  const [first] = columns.value
  if (!first || !value) return null
  const gateway = { url: value.base_url, key: value.key }
  const isWrong = wrong.value.some((field) => field !== 'prompt')
  return (
    <div class="row">
      <span>{texts.copyAs}</span>
      {SNIPPETS.map((name) => (
        <button
          key={name}
          type="button"
          class="button quiet small"
          disabled={isWrong}
          onClick={() => void copyText(snippet(name, settings.value, first.model.value, gateway))}
        >
          {texts.snippets[name]}
        </button>
      ))}
    </div>
  )
}

const History = ({ onRestore }: { readonly onRestore: () => void }) => {
  const kept = history.value
  return (
    <details class="playground-part">
      <summary>{texts.history.title}</summary>
      <label class="check">
        <input
          type="checkbox"
          checked={kept !== null}
          onChange={({ currentTarget }) => setKeeping(currentTarget.checked)}
        />
        {texts.history.keep}
      </label>
      <p class="dim small">{texts.history.about}</p>
      {kept?.length === 0 && <p class="dim">{texts.history.empty}</p>}
      {kept && kept.length > 0 && (
        <>
          <ul class="rows playground-history">
            {kept.map((entry) => (
              <li key={entry.at}>
                <button
                  type="button"
                  onClick={() => {
                    restore(entry)
                    onRestore()
                  }}
                >
                  <span class="dim">
                    <Time at={entry.at}>{moment(entry.at)}</Time>
                  </span>
                  <bdi class="playground-name">{entry.settings.prompt || texts.history.noPrompt}</bdi>
                  <bdi class="dim playground-name">{entry.models.join(', ')}</bdi>
                </button>
              </li>
            ))}
          </ul>
          <button type="button" class="button small" onClick={clearHistory}>
            {texts.history.clear}
          </button>
        </>
      )}
    </details>
  )
}

export const Results = ({ onRestore }: { readonly onRestore: () => void }) => {
  const ended = columns.value.filter(({ run }) => ['done', 'failed', 'stopped'].includes(run.value.state))
  const answered = ended.filter(({ run }) => run.value.answer.text !== '')
  return (
    <div class="playground-results">
      {ended.length > 1 && <Comparison ended={ended} />}
      {answered.length > 1 && <Difference ended={answered} />}
      <Programs />
      <History onRestore={onRestore} />
    </div>
  )
}
