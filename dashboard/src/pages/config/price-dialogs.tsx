/** Dialogs of prices: set or change one, and write what it changes in the ledger. */
import { useSignal } from '@preact/signals'
import type { PRICE } from '../../../../src/records/entities/price.ts'
import type { Shown } from '../../../../src/records/entities/shown.ts'
import type { UNPRICED_MODELS } from '../../../../src/server/answers/prices.ts'
import type { REPRICING } from '../../../../src/server/answers/usage.ts'
import { useResource, write } from '../../api.ts'
import { money } from '../../format.ts'
import { attempt, changeRecord, type DialogEnd, Form } from '../../parts/changing.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Failed, Loading } from '../../parts/states.tsx'
import { toast } from '../../store.ts'
import { en } from '../../words/en.ts'
import { setup } from '../../words/setup.ts'

const { prices: text } = setup

export type PriceRecord = Shown<typeof PRICE>
export type Unpriced = Shown<typeof UNPRICED_MODELS>['data'][number]
type Repricing = Shown<typeof REPRICING>

/** `record`: the price that is changed; null: a new one. `unpriced`: the model was used without a price. */
export type PriceStart = {
  readonly provider: string
  readonly model: string
  readonly record: PriceRecord | null
  readonly unpriced: Unpriced | null
}

/** The prices that the form has. Others of a record stay as they are. */
const FIELDS = ['input', 'output', 'cacheRead', 'cacheWrite', 'reasoning', 'factor'] as const
const NUMBER = '[0-9]{1,6}([.][0-9]{1,9})?'

type Body = Pick<PriceRecord, 'provider' | 'model' | 'effective_from'> & {
  readonly prices: { readonly [part: string]: number | null }
}

/** The values of the form; null: the field is empty. */
const bodyIn = (data: FormData): Body => {
  const textIn = (name: string) => String(data.get(name) ?? '').trim()
  const from = textIn('from')
  return {
    provider: textIn('provider'),
    model: textIn('model'),
    effective_from: from === '' ? null : new Date(from).toISOString(),
    prices: Object.fromEntries(FIELDS.map((name) => [name, textIn(name) === '' ? null : Number(textIn(name))])),
  }
}

/** The prices that a new record has. */
const present = (prices: Body['prices']) =>
  Object.fromEntries(Object.entries(prices).filter(([, value]) => value !== null))

type FieldProps = {
  readonly name: (typeof FIELDS)[number]
  readonly record: PriceRecord | null
  readonly hasFocus: boolean
}

const Field = ({ name, record, hasFocus }: FieldProps) => (
  <label class="field">
    {text.parts[name]}
    <input
      name={name}
      data-focus={hasFocus}
      inputMode="decimal"
      pattern={NUMBER}
      autocomplete="off"
      defaultValue={record?.prices[name] === undefined ? '' : String(record.prices[name])}
    />
  </label>
)

/** The local time of a text, as the field has it. */
const localTime = (iso: string): string => {
  const at = new Date(iso)
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

type PriceDialogProps = DialogEnd & {
  readonly start: PriceStart
  /** With the model whose attempts may be priced now; null: there are none. */
  readonly saved: (unpriced: Unpriced | null) => void
}

export const PriceDialog = ({ start, close, reload, saved }: PriceDialogProps) => {
  const { record, unpriced } = start
  const send = async (data: FormData) => {
    const body = bodyIn(data)
    const name = `${body.provider}/${body.model}`
    if (record) {
      const { id, rev, provider, model, effective_from, prices } = record
      const before = Object.fromEntries(FIELDS.map((field) => [field, prices[field] ?? null]))
      const back = { provider, model, effective_from, prices: before }
      await changeRecord({ path: `/prices/${id}`, name, patch: body, back, rev, done: text.saved(name), after: reload })
      return close()
    }
    await write('POST', '/prices', { ...body, prices: present(body.prices) })
    toast(text.saved(name))
    reload()
    saved(body.effective_from === null ? unpriced : null)
  }
  return (
    <Dialog title={record ? text.editTitle(record.name) : text.title} onClose={close}>
      <Form send={send} close={close} submit={text.save}>
        <div class="fields">
          <label class="field">
            {text.provider}
            <input
              name="provider"
              required
              data-focus={start.model === ''}
              maxLength={256}
              autocomplete="off"
              defaultValue={start.provider}
            />
          </label>
          <label class="field">
            {text.model}
            <input name="model" required maxLength={256} autocomplete="off" defaultValue={start.model} />
          </label>
        </div>
        <p class="small dim">{text.unit}</p>
        <div class="fields">
          {FIELDS.map((name, at) => (
            <Field key={name} name={name} record={record} hasFocus={at === 0 && start.model !== ''} />
          ))}
        </div>
        <label class="field">
          {text.fromField}
          <input
            name="from"
            type="datetime-local"
            defaultValue={record?.effective_from == null ? '' : localTime(record.effective_from)}
          />
        </label>
        <p class="dim">{unpriced ? text.effect(unpriced.attempts) : text.effectNone}</p>
      </Form>
    </Dialog>
  )
}

/** What the prices of now change in the ledger; written when it is confirmed. */
export const Reprice = ({ of, close, reload }: DialogEnd & { readonly of: Unpriced }) => {
  const { provider, model, since } = of
  const isBusy = useSignal(false)
  const body = { from: `${since}T00:00:00Z`, provider, model }
  const dry = useResource(`reprice ${provider}/${model}`, () => write<Repricing>('POST', '/usage/reprice', body))
  const apply = async () => {
    isBusy.value = true
    const done = await attempt(async () => {
      const { applied, total } = await write<Repricing>('POST', '/usage/reprice', { ...body, dry_run: false })
      toast(text.repriced(applied, money(total.difference)))
    })
    isBusy.value = false
    if (!done) return
    reload()
    close()
  }
  const attempts = dry.value?.data.reduce((sum, line) => sum + line.attempts, 0) ?? 0
  const isNothing = !dry.value || dry.value.data.every(({ difference }) => Number(difference) === 0)
  return (
    <Dialog title={text.repriceTitle(`${provider}/${model}`)} onClose={close}>
      {dry.problem && <Failed problem={dry.problem} retry={dry.reload} />}
      {!dry.value && !dry.problem && <Loading rows={2} />}
      {dry.value && (
        <p role="status">
          {isNothing ? text.repriceNone : text.repriceEffect(attempts, money(dry.value.total.difference))}
          {dry.value.skipped > 0 && ` ${text.skipped(dry.value.skipped)}`}
        </p>
      )}
      <p class="dim">{text.repriceAbout}</p>
      <div class="row end">
        <button type="button" class="button" data-focus onClick={close}>
          {text.leave}
        </button>
        <button type="button" class="button primary" disabled={isBusy.value || isNothing} onClick={() => void apply()}>
          {text.write}
        </button>
      </div>
      <span class="sr-only">{isBusy.value ? en.states.loading : ''}</span>
    </Dialog>
  )
}
