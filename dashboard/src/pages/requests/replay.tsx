/** Sends a kept request again, and compares both. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { answerText } from '../../../../src/core/shown-answer.ts'
import type { ListPage, RequestEntry } from '../../../../src/usage/reading/queries.ts'
import { type ApiProblem, problemIn, read, useResource, write } from '../../api.ts'
import { count, duration, money } from '../../format.ts'
import { readBodies } from '../../kept-bodies.ts'
import { readLate, requestById } from '../../late-request.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { Failed, Loading } from '../../parts/states.tsx'
import { TextDifference } from '../../parts/text-difference.tsx'
import { useId } from '../../parts/use-id.ts'
import { current, go } from '../../store.ts'
import { en } from '../../words/en.ts'
import { requests as w } from '../../words/requests.ts'
import { outcomeText } from './cells.tsx'

/** ms for which an answer and its bodies are waited for. */
const WITHIN = { answer: 60_000, bodies: 7_000 }

type Texts = { readonly before: string | null; readonly after: string | null }

const rowsOf = (request: RequestEntry): readonly (readonly [label: string, value: string])[] => [
  [w.columns.outcome, outcomeText(request)],
  [w.columns.model, request.provider === null ? '–' : `${request.provider}/${request.model ?? ''}`],
  [w.columns.first, request.first_content_ms === null ? '–' : duration(request.first_content_ms)],
  [w.columns.total, request.total_ms === null ? '–' : duration(request.total_ms)],
  [w.columns.tokens, `${count(request.usage.input ?? 0)} → ${count(request.usage.output ?? 0)}`],
  [w.columns.cost, request.cost === null ? en.states.unknown : money(request.cost)],
]

/** The text of both answers. */
const TextsOf = ({ before, after }: BothProps) => {
  const isOver = useSignal(false)
  useEffect(
    () => () => {
      isOver.value = true
    },
    [isOver],
  )
  const { value, problem } = useResource(`texts ${after.id}`, async (): Promise<Texts> => {
    const late = readLate(() => readBodies(after.id), { within: WITHIN.bodies, isOver: () => isOver.value })
    const [old, now] = await Promise.all([readBodies(before.id), late])
    return { before: answerText(old), after: answerText(now) }
  })
  return (
    <section class="stack">
      <h3>{w.replay.texts}</h3>
      {problem ? (
        <Failed problem={problem} />
      ) : !value ? (
        <Loading rows={2} />
      ) : value.before === null || value.after === null ? (
        <p class="dim">{w.replay.noText}</p>
      ) : (
        <TextDifference first={value.before} second={value.after} />
      )}
    </section>
  )
}

type BothProps = { readonly before: RequestEntry; readonly after: RequestEntry }

const Comparison = ({ before, after }: BothProps) => {
  const old = rowsOf(before)
  return (
    <table class="data-table compare">
      <thead>
        <tr>
          <th scope="col">
            <span class="sr-only">{w.sheet.details}</span>
          </th>
          <th scope="col">{w.replay.before}</th>
          <th scope="col">{w.replay.after}</th>
        </tr>
      </thead>
      <tbody>
        {rowsOf(after).map(([label, value], at) => (
          <tr key={label}>
            <td>{label}</td>
            <td>
              <bdi>{old[at]?.[1]}</bdi>
            </td>
            <td class={old[at]?.[1] === value ? 'dim' : ''}>
              <bdi>{value}</bdi>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

export const Replay = ({ request, onClose }: { readonly request: RequestEntry; readonly onClose: () => void }) => {
  const state = useSignal<'asked' | 'running' | 'late' | RequestEntry>('asked')
  const problem = useSignal<ApiProblem | null>(null)
  const models = useSignal<readonly string[]>([])
  const isOver = useSignal(false)
  const list = useId()
  useEffect(() => {
    read<ListPage<{ readonly id: string }>>('/models', { limit: 200 }).then(
      ({ data }) => {
        models.value = data.map(({ id }) => id)
      },
      // Without suggestions the field takes any name.
      () => {},
    )
    return () => {
      isOver.value = true
    }
  }, [models, isOver])
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    if (!(event.currentTarget instanceof HTMLFormElement)) return
    const model = String(new FormData(event.currentTarget).get('model')).trim()
    state.value = 'running'
    problem.value = null
    try {
      const body = model === '' || model === request.asked ? {} : { model }
      const { id } = await write<{ id: string }>('POST', `/requests/${encodeURIComponent(request.id)}/replay`, body)
      const ended = async () => {
        const found = await requestById(id)
        return found?.ended_at == null ? null : found
      }
      const found = await readLate(ended, { within: WITHIN.answer, isOver: () => isOver.value })
      state.value = found ?? 'late'
    } catch (error) {
      problem.value = problemIn(error)
      state.value = 'asked'
    }
  }
  const now = state.value
  return (
    <Dialog title={w.replay.title} onClose={onClose}>
      {typeof now === 'object' ? (
        <>
          <Comparison before={request} after={now} />
          <TextsOf before={request} after={now} />
          <div class="row end">
            <button
              type="button"
              class="button primary"
              onClick={() => {
                onClose()
                go({ ...current.value, id: now.id })
              }}
            >
              {w.replay.open}
            </button>
          </div>
        </>
      ) : (
        <form class="stack" onSubmit={(event) => void submit(event)}>
          <p>{w.replay.about}</p>
          <p>{request.cost === null ? w.replay.costsUnknown : w.replay.costs(money(request.cost))}</p>
          <label class="field">
            {w.replay.model}
            <input
              data-focus
              name="model"
              list={list}
              defaultValue={request.asked}
              autocomplete="off"
              spellcheck={false}
            />
          </label>
          <datalist id={list}>
            {models.value.map((id) => (
              <option key={id} value={id} />
            ))}
          </datalist>
          {problem.value && <Failed problem={problem.value} />}
          {now === 'running' && (
            <>
              <p role="status">{w.replay.running}</p>
              <Loading rows={2} />
            </>
          )}
          {now === 'late' && <p role="status">{w.replay.late}</p>}
          <div class="row end">
            <button type="button" class="button quiet" onClick={onClose}>
              {en.actions.cancel}
            </button>
            <button type="submit" class="button primary" disabled={now === 'running'}>
              {w.replay.submit}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  )
}
