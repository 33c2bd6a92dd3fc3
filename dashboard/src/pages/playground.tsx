/** The playground: one request to up to four models, side by side. */
import { signal } from '@preact/signals'
import { useEffect, useLayoutEffect, useMemo } from 'preact/hooks'
import { parsed } from '../../../src/core/plain-json.ts'
import type { RequestEntry } from '../../../src/usage/reading/queries.ts'
import { valuesOf, withParam } from '../address.ts'
import { hasRole, offlineSince, problemIn, read, session, useResource } from '../api.ts'
import { readBodies } from '../kept-bodies.ts'
import type { Suggestion } from '../parts/combobox.tsx'
import { PageHead } from '../parts/states.tsx'
import { NO_SETTINGS, STYLES, settingsOf } from '../playground/request.ts'
import { addColumn, columns, isRunning, MOST_COLUMNS, send, settings, showModels, stop } from '../playground/state.ts'
import { current, go, isNarrow } from '../store.ts'
import { en } from '../words/en.ts'
import { playground as texts } from '../words/playground.ts'
import { AnswerColumn } from './playground/column.tsx'
import { Fields } from './playground/fields.tsx'
import { Results } from './playground/results.tsx'

/** Names in the address: the models of the columns, and a request to edit. */
const MODELS = 'with'
const REQUEST = 'request'
/** What a new playground begins with: the gateway chooses. */
const FIRST = 'auto'

/** What became of the request to edit. */
const filled = signal<string | null>(null)
/** The column that a narrow screen shows. */
const shown = signal(0)

const writeModels = (): void =>
  go(
    withParam(
      current.value,
      MODELS,
      columns.value.map(({ model }) => model.value),
    ),
    'replace',
  )

/** The kept body of a request, and what to show about it. */
const keptBody = async (id: string): Promise<{ readonly body: unknown; readonly about: string }> => {
  try {
    const bodies = await readBodies(id)
    const body = bodies ? parsed(bodies.request.text ?? '') : undefined
    return { body, about: body !== undefined ? texts.loaded(id) : bodies ? texts.notWhole(id) : texts.notKept(id) }
  } catch (error) {
    return { body: undefined, about: texts.bodyNotRead(id, problemIn(error).message) }
  }
}

const fill = async (id: string): Promise<void> => {
  const clean = withParam(current.value, REQUEST, [])
  try {
    const [entry, { body, about }] = await Promise.all([read<RequestEntry>(`/requests/${id}`), keptBody(id)])
    const style = STYLES.find((one) => one === entry.style) ?? 'chat'
    settings.value = body === undefined ? { ...NO_SETTINGS, style } : settingsOf(style, body)
    showModels([entry.asked])
    filled.value = about
    go(withParam(clean, MODELS, [entry.asked]), 'replace')
  } catch (error) {
    filled.value = texts.notRead(id, problemIn(error).message)
    go(clean, 'replace')
  }
}

/** What is offered while typing; any other name can be entered too. */
const useModels = (): readonly Suggestion[] => {
  const { value } = useResource(hasRole('operator', 'all') ? 'models-to-try' : null, () =>
    read<{ readonly data: readonly { readonly id: string }[] }>('/try/v1/models'),
  )
  return useMemo(() => (value?.data ?? []).map(({ id }) => ({ value: id, note: texts.notes[id] })), [value])
}

/** Reads the address: the models of the columns, or a request to edit. */
const useAddress = (): void => {
  const [request] = valuesOf(current.value, REQUEST)
  const wanted = valuesOf(current.value, MODELS).join('\n')
  useEffect(() => {
    if (request !== undefined) void fill(request)
  }, [request])
  // Before the next key: what is typed then is newer than the address.
  useLayoutEffect(() => {
    if (request !== undefined) return
    const now = columns.peek().map(({ model }) => model.peek())
    if (wanted !== '' && wanted !== now.join('\n')) showModels(wanted.split('\n'))
    else if (wanted === '' && now.length > 0) writeModels()
    else if (now.length === 0) showModels([FIRST])
  }, [wanted, request])
}

/** Why nothing can be sent; null: it can. */
const obstacle = (): string | null => {
  if (session.value && !hasRole('operator', 'all')) return texts.notAllowed
  return offlineSince.value === null ? null : en.states.offlineWrite
}

const useKeys = (): void =>
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.isComposing || document.querySelector('dialog[open], [popover]:popover-open')) return
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && obstacle() === null) {
        event.preventDefault()
        send()
      } else if (event.key === 'Escape' && isRunning.value) {
        event.preventDefault()
        stop()
      }
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])

const Buttons = () => {
  const why = obstacle()
  return (
    <div class="playground-buttons">
      <button
        type="button"
        class="button primary"
        disabled={isRunning.value || why !== null}
        aria-describedby={why === null ? undefined : 'playground-why'}
        aria-keyshortcuts="Control+Enter"
        onClick={() => send()}
      >
        {texts.send}{' '}
        <span class="key" aria-hidden="true">
          Ctrl-⏎
        </span>
      </button>
      <button type="button" class="button" disabled={!isRunning.value} onClick={stop}>
        {texts.stop}{' '}
        <span class="key" aria-hidden="true">
          Esc
        </span>
      </button>
    </div>
  )
}

/** Chooses the column that a narrow screen shows. */
const Pager = ({ at, of }: { readonly at: number; readonly of: number }) => (
  <div class="playground-pager">
    <button
      type="button"
      class="icon"
      aria-label={texts.previous}
      disabled={at === 0}
      onClick={() => {
        shown.value = at - 1
      }}
    >
      ‹
    </button>
    <span>{texts.position(at + 1, of)}</span>
    <button
      type="button"
      class="icon"
      aria-label={texts.next}
      disabled={at === of - 1}
      onClick={() => {
        shown.value = at + 1
      }}
    >
      ›
    </button>
  </div>
)

const Columns = ({ models }: { readonly models: readonly Suggestion[] }) => {
  const all = columns.value
  const at = Math.min(shown.value, all.length - 1)
  const visible = isNarrow.value ? all.slice(at, at + 1) : all
  return (
    <>
      {isNarrow.value && all.length > 1 && <Pager at={at} of={all.length} />}
      <div class="playground-columns" data-count={all.length}>
        {visible.map((column) => (
          <AnswerColumn
            key={column.id}
            column={column}
            number={all.indexOf(column) + 1}
            models={models}
            onModels={writeModels}
          />
        ))}
        {all.length < MOST_COLUMNS && (
          <button
            type="button"
            class="button quiet playground-add"
            onClick={() => {
              addColumn()
              shown.value = columns.value.length - 1
              writeModels()
            }}
          >
            <span aria-hidden="true">+</span> {texts.addColumn}
          </button>
        )}
      </div>
    </>
  )
}

export const Page = () => {
  const models = useModels()
  useAddress()
  useKeys()
  const why = obstacle()
  return (
    <div class="playground">
      <PageHead title={en.pages.playground}>
        <p class="dim small">{texts.budget}</p>
      </PageHead>
      {filled.value !== null && (
        <p class="playground-note" role="status">
          <bdi>{filled.value}</bdi>
        </p>
      )}
      {why !== null && (
        <p id="playground-why" class="playground-note">
          {why}
        </p>
      )}
      <Fields>
        <Buttons />
      </Fields>
      <Columns models={models} />
      <Results onRestore={writeModels} />
    </div>
  )
}
