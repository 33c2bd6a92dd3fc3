/** Actions on a provider: probe, close, rest. Each has one confirmation that states its effect, and an undo where that is possible. */
import { useSignal } from '@preact/signals'
import { hasRole, offlineSince, problemIn, write } from '../api.ts'
import { clock, duration } from '../format.ts'
import type { ProviderRow } from '../provider-row.ts'
import { gatewayNow, toast } from '../store.ts'
import { en } from '../words/en.ts'
import { providerWords } from '../words/providers.ts'
import { Dialog } from './dialog.tsx'
import { Menu } from './menu.tsx'

const { actions: words } = providerWords

/** s */
const RESTS = [600, 1_800, 3_600, 14_400] as const

type Asked = { readonly do: 'probe' | 'close' | 'end' } | { readonly do: 'rest'; readonly seconds: number }
type CircuitAnswer = { readonly changed: number }
type ProviderActionsProps = { readonly row: ProviderRow; readonly changed: () => void }

const circuit = (id: string, body: object): Promise<CircuitAnswer> =>
  write<CircuitAnswer>('POST', `/providers/${encodeURIComponent(id)}/circuit`, body)

const failed = (error: unknown): void => toast(problemIn(error).message, { tone: 'bad' })

/** Rests a provider, with a way back in the message. */
const rest = async ({ row: { id }, changed }: ProviderActionsProps, seconds: number): Promise<void> => {
  await circuit(id, { action: 'open', seconds })
  changed()
  toast(words.rested(id, duration(seconds * 1_000)), { undo: () => void endRest(id, changed).catch(failed) })
}

const endRest = async (id: string, changed: () => void): Promise<void> => {
  await circuit(id, { action: 'close' })
  changed()
  toast(words.restEnded(id))
}

const run = async (props: ProviderActionsProps, asked: Asked): Promise<void> => {
  const { row, changed } = props
  const { id, until } = row
  if (asked.do === 'rest') return rest(props, asked.seconds)
  const { changed: count } = await circuit(id, { action: asked.do === 'probe' ? 'probe' : 'close' })
  changed()
  if (asked.do === 'probe') return toast(count === 0 ? words.nothingOpen(id) : words.probed(id))
  if (asked.do === 'close') return toast(count === 0 ? words.nothingOpen(id) : words.closed(id, count))
  // What is left of the rest is its way back.
  const left = until === null ? 0 : Math.floor((until - gatewayNow()) / 1_000)
  return toast(words.restEnded(id), left < 1 ? {} : { undo: () => void rest(props, left).catch(failed) })
}

const textOf = (
  { id }: ProviderRow,
  asked: Asked,
): { readonly title: string; readonly text: string; readonly verb: string } => {
  switch (asked.do) {
    case 'probe':
      return { title: words.probeTitle(id), text: words.probeText(id), verb: words.probe }
    case 'close':
      return { title: words.closeTitle(id), text: words.closeText(id), verb: words.close }
    case 'end':
      return { title: words.endRestTitle(id), text: words.endRestText(id), verb: words.endRest }
    case 'rest': {
      const time = duration(asked.seconds * 1_000)
      const end = clock(gatewayNow() + asked.seconds * 1_000)
      return { title: words.restTitle(id, time), text: words.restText(id, end), verb: words.restFor(time) }
    }
    default:
      throw new Error(`unknown action ${JSON.stringify(asked satisfies never)}`)
  }
}

/** Why nothing can be done now; null: it can. */
const refusal = (): string | null =>
  !hasRole('operator', 'all') ? words.needsOperator : offlineSince.value !== null ? en.states.offlineWrite : null

export const ProviderActions = (props: ProviderActionsProps) => {
  const { row } = props
  const asked = useSignal<Asked | null>(null)
  const isBusy = useSignal(false)
  const why = refusal()
  /** A circuit is open, or a key or model rests: closing ends both. */
  const isWaiting = row.state !== 'resting' && (row.state !== 'closed' || row.waiting.length > 0)
  const isOpen =
    row.state === 'open' ||
    row.state === 'half_open' ||
    row.waiting.some(({ status }) => status === 'open' || status === 'half_open')
  const ask = (next: Asked) => () => {
    asked.value = next
  }
  const confirm = async () => {
    if (!asked.value || isBusy.value) return
    isBusy.value = true
    try {
      await run(props, asked.value)
    } catch (error) {
      failed(error)
    }
    isBusy.value = false
    asked.value = null
  }
  return (
    <div class="row provider-actions">
      {row.state === 'resting' ? (
        <button type="button" class="button" disabled={why !== null} onClick={ask({ do: 'end' })}>
          {words.endRest}
        </button>
      ) : (
        <>
          <button type="button" class="button" disabled={why !== null || !isOpen} onClick={ask({ do: 'probe' })}>
            {words.probe}
          </button>
          <button type="button" class="button" disabled={why !== null || !isWaiting} onClick={ask({ do: 'close' })}>
            {words.close}
          </button>
          {why === null ? (
            <Menu label={words.rest}>
              {(close) =>
                RESTS.map((seconds) => (
                  <button
                    key={seconds}
                    type="button"
                    class="button quiet"
                    onClick={() => {
                      close()
                      asked.value = { do: 'rest', seconds }
                    }}
                  >
                    {words.restFor(duration(seconds * 1_000))}
                  </button>
                ))
              }
            </Menu>
          ) : (
            <button type="button" class="button" disabled>
              {words.rest}
            </button>
          )}
        </>
      )}
      <span class="small dim">{why ?? (isWaiting || row.state === 'resting' ? '' : words.notOpen)}</span>
      {asked.value && (
        <Dialog
          title={textOf(row, asked.value).title}
          onClose={() => {
            asked.value = null
          }}
        >
          <p>{textOf(row, asked.value).text}</p>
          <p class="small dim">{words.audited}</p>
          <div class="row end">
            <button
              type="button"
              class="button quiet"
              onClick={() => {
                asked.value = null
              }}
            >
              {en.actions.cancel}
            </button>
            <button
              type="button"
              class="button primary"
              data-focus
              disabled={isBusy.value}
              onClick={() => void confirm()}
            >
              {textOf(row, asked.value).verb}
            </button>
          </div>
        </Dialog>
      )}
    </div>
  )
}
