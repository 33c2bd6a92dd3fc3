/** What the playground shows; it lasts as long as the tab. */
import { computed, type Signal, signal } from '@preact/signals'
import { isPlainObject, listIn, parsed } from '../../../src/core/plain-json.ts'
import { announce, store, stored } from '../store.ts'
import { playground as texts } from '../words/playground.ts'
import { NO_SETTINGS, type PlaygroundSettings, requestOf, wrongFields } from './request.ts'
import { NO_RUN, type Run, runRequest } from './run.ts'

/** One model beside others. */
export type PlaygroundColumn = { readonly id: number; readonly model: Signal<string>; readonly run: Signal<Run> }

export const MOST_COLUMNS = 4
const RENDERED = 'playground-rendered'

let lastId = 0
const columnFor = (model: string): PlaygroundColumn => ({ id: ++lastId, model: signal(model), run: signal(NO_RUN) })

export const settings = signal<PlaygroundSettings>(NO_SETTINGS)
export const columns = signal<readonly PlaygroundColumn[]>([])
export const change = (next: Partial<PlaygroundSettings>): void => {
  settings.value = { ...settings.value, ...next }
}

/** Whether any column runs. */
export const isRunning = computed(() => columns.value.some(({ run }) => run.value.state === 'running'))
/** Whether fields that are wrong are marked: after an attempt to send. */
export const isChecked = signal(false)
export const wrong = computed(() => wrongFields(settings.value))

/** Whether answers are shown as Markdown. */
export const isRendered = signal(stored(RENDERED) === 'yes')
export const setRendered = (on: boolean): void => {
  isRendered.value = on
  store(RENDERED, on ? 'yes' : null)
}

/** Shows these models; columns that have one of them keep their answers. */
export const showModels = (models: readonly string[]): void => {
  const rest = [...columns.value]
  columns.value = models.slice(0, MOST_COLUMNS).map((model) => {
    const at = rest.findIndex((column) => column.model.peek() === model)
    const [known] = at === -1 ? [] : rest.splice(at, 1)
    return known ?? columnFor(model)
  })
}

export const addColumn = (): void => {
  const model = columns.value.at(-1)?.model.peek() ?? ''
  if (columns.value.length < MOST_COLUMNS) columns.value = [...columns.value, columnFor(model)]
}

export const removeColumn = (id: number): void => {
  if (columns.value.length > 1) columns.value = columns.value.filter((column) => column.id !== id)
}

let aborter = new AbortController()

/** Ends all requests. */
export const stop = (): void => aborter.abort()

/** Sends the request of each column; false: something is wrong. */
export const send = (): boolean => {
  isChecked.value = true
  if (isRunning.value || wrong.value.length > 0) return false
  const entered = settings.value
  const all = columns.value
  if (all.some(({ model }) => model.value.trim() === '')) return false
  isChecked.value = false
  aborter = new AbortController()
  keep(
    entered,
    all.map(({ model }) => model.value),
  )
  for (const { model, run } of all) {
    const name = model.value.trim()
    void runRequest(entered.style, requestOf(entered, name), aborter.signal, (next) => {
      if (run.value.state === 'running' && next.state === 'done')
        announce(texts.complete(name, next.answer.usage?.output ?? 0))
      run.value = next
    })
  }
  return true
}

// ── History ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What was sent before. */
export type Kept = { readonly at: number; readonly settings: PlaygroundSettings; readonly models: readonly string[] }

const HISTORY = 'playground-history'
const MOST_KEPT = 50

const keptIn = (text: string | undefined): readonly Kept[] | null => {
  const value = text === undefined ? undefined : parsed(text)
  if (!Array.isArray(value)) return null
  return listIn(value).flatMap((entry) => {
    if (!isPlainObject(entry) || !isPlainObject(entry.settings) || typeof entry.at !== 'number') return []
    const models = listIn(entry.models).filter((model) => typeof model === 'string')
    // Written by `keep`; a text that something else wrote only fills fields.
    const known = Object.fromEntries(
      Object.entries(NO_SETTINGS).map(([name, usual]) => {
        const one = Reflect.get(entry.settings as object, name)
        return [name, typeof one === typeof usual ? one : usual]
      }),
    ) as PlaygroundSettings
    return [{ at: entry.at, settings: known, models }]
  })
}

/** Null: nothing is kept. */
export const history = signal<readonly Kept[] | null>(keptIn(stored(HISTORY)))

const setHistory = (next: readonly Kept[] | null): void => {
  history.value = next
  store(HISTORY, next && JSON.stringify(next))
}
/** Begins or ends keeping; both begin without entries. */
export const setKeeping = (on: boolean): void => setHistory(on ? [] : null)
export const clearHistory = (): void => setHistory([])

const keep = (entered: PlaygroundSettings, models: readonly string[]): void => {
  if (!history.value) return
  setHistory([{ at: Date.now(), settings: { ...entered, image: null }, models }, ...history.value].slice(0, MOST_KEPT))
}

/** Fills in what was sent before. */
export const restore = ({ settings: entered, models }: Kept): void => {
  settings.value = entered
  showModels(models)
}
