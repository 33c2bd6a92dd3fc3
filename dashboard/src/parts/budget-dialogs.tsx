/** Dialogs that create, change, correct and delete budgets. The effect is shown before it is saved. */
import { useSignal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { useResource, write } from '../api.ts'
import { addDollars, money } from '../format.ts'
import { amountEffect, type BudgetRecord, entriesOf, negated } from '../key-records.ts'
import { findKeys } from '../owner-names.ts'
import { toast } from '../store.ts'
import { budgetWords as text } from '../words/budgets.ts'
import { keysWords } from '../words/keys.ts'
import { attempt, changeRecord, type DialogEnd, Form } from './changing.tsx'
import { Dialog } from './dialog.tsx'
import type { KeysData } from './key-cells.tsx'
import { useId } from './use-id.ts'

type ForBudget = DialogEnd & { readonly budget: BudgetRecord }

const PERIODS = ['hour', 'day', 'week', 'month', 'quarter', 'year', 'total'] as const
const MODES = ['hard', 'soft'] as const
const PER = ['all', 'team', 'key', 'user', 'end_user', 'session'] as const
const AMOUNT = '[0-9]{1,9}([.][0-9]{1,9})?'

const textIn = (data: FormData, name: string): string => String(data.get(name) ?? '').trim()
const alertsIn = (data: FormData): readonly number[] => (entriesOf(textIn(data, 'alerts')) ?? []).map(Number)

/** What the amount of the form does now. */
const Effect = ({ budget, amount }: { readonly budget: BudgetRecord; readonly amount: string }) => {
  const { kind, left } = amountEffect(budget, amount)
  const spent = money(budget.now.spent)
  return (
    <p class={kind === 'blocks' || kind === 'invalid' ? 'bad' : 'dim'} role="status">
      {kind === 'invalid' && text.effect.invalid}
      {kind === 'blocks' && text.effect.blocks(spent)}
      {kind === 'unblocks' && text.effect.unblocks(money(left))}
      {kind === 'leaves' && text.effect.leaves(spent, money(left))}
    </p>
  )
}

/** What a new budget counts: `team ID`, `key NAME`, or everything. */
const appliesToIn = (value: string) => {
  const [kind = '', ...id] = value.split(' ')
  return kind === 'team' || kind === 'key' ? { [`${kind}s`]: [id.join(' ')] } : {}
}

/** One of many keys is found by its name. */
const KeyField = () => {
  const name = useSignal('')
  const id = useId()
  const found = useResource(`budget of key ${name.value}`, () => findKeys(name.value))
  return (
    <label class="field">
      {text.form.key}
      <input
        required
        list={id}
        autocomplete="off"
        onInput={({ currentTarget }) => {
          name.value = currentTarget.value.trim()
        }}
      />
      <datalist id={id}>
        {found.value?.map(({ label }) => (
          <option key={label} value={label} />
        ))}
      </datalist>
      <input type="hidden" name="of" value={`key ${name.value}`} />
    </label>
  )
}

const Counted = ({ data }: { readonly data: KeysData }) => {
  const isKey = useSignal(false)
  return (
    <>
      <div class="fields">
        <label class="field">
          {text.form.of}
          <select
            name={isKey.value ? undefined : 'of'}
            onChange={({ currentTarget }) => {
              isKey.value = currentTarget.value === 'key'
            }}
          >
            <option value="">{text.form.ofAll}</option>
            <option value="key">{text.form.ofOneKey}</option>
            {data.teams.map(({ id, name }) => (
              <option key={id} value={`team ${id}`}>
                {text.form.ofTeam(name)}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          {text.form.per}
          <select name="per">
            {PER.map((per) => (
              <option key={per} value={per}>
                {text.per[per]}
              </option>
            ))}
          </select>
        </label>
      </div>
      {isKey.value && <KeyField />}
    </>
  )
}

type BudgetDialogProps = DialogEnd & { readonly data: KeysData; readonly budget: BudgetRecord | null }

export const BudgetDialog = ({ data, budget, close, reload }: BudgetDialogProps) => {
  // A change elsewhere since then is a conflict, not a new start.
  const [opened] = useState(budget)
  const amount = useSignal(opened?.amount ?? '')
  const send = async (fields: FormData) => {
    const body = {
      name: textIn(fields, 'name'),
      amount: textIn(fields, 'amount'),
      period: textIn(fields, 'period'),
      mode: textIn(fields, 'mode'),
      alerts: alertsIn(fields),
    }
    if (opened) {
      const { name, amount: before, period, mode, alerts, rev, id } = opened
      const done = text.saved(name)
      const back = { name, amount: before, period, mode, alerts }
      await changeRecord({ path: `/budgets/${id}`, name, rev, patch: body, back, done, after: reload })
    } else {
      await write('POST', '/budgets', {
        ...body,
        per: textIn(fields, 'per'),
        appliesTo: appliesToIn(textIn(fields, 'of')),
      })
      toast(text.created(body.name))
      reload()
    }
    close()
  }
  const onInput = (fields: FormData) => {
    amount.value = textIn(fields, 'amount')
  }
  return (
    <Dialog title={budget ? text.form.edit(budget.name) : text.form.create} onClose={close}>
      <Form send={send} close={close} submit={budget ? keysWords.form.save : keysWords.form.submit} onInput={onInput}>
        <label class="field">
          {text.form.name}
          <input
            name="name"
            required
            data-focus={!budget}
            maxLength={64}
            autocomplete="off"
            defaultValue={opened?.name ?? ''}
          />
        </label>
        <div class="fields">
          <label class="field">
            {text.form.amount}
            <input
              name="amount"
              required
              data-focus={budget !== null}
              inputMode="decimal"
              pattern={AMOUNT}
              defaultValue={opened?.amount ?? ''}
              autocomplete="off"
            />
          </label>
          <label class="field">
            {text.form.period}
            <select name="period">
              {PERIODS.map((period) => (
                <option key={period} value={period} selected={period === (opened?.period ?? 'month')}>
                  {keysWords.periods[period]}
                </option>
              ))}
            </select>
          </label>
        </div>
        {budget && <Effect budget={budget} amount={amount.value} />}
        {!budget && <Counted data={data} />}
        <div class="fields">
          <label class="field">
            {text.form.mode}
            <select name="mode">
              {MODES.map((mode) => (
                <option key={mode} value={mode} selected={mode === opened?.mode}>
                  {text.form.modes[mode]}
                </option>
              ))}
            </select>
          </label>
          <label class="field">
            {text.form.alerts}
            <input
              name="alerts"
              pattern="[0-9., ]*"
              defaultValue={(opened?.alerts ?? [50, 80, 100]).join(', ')}
              autocomplete="off"
              title={text.form.alertsHint}
            />
          </label>
        </div>
      </Form>
    </Dialog>
  )
}

/** Adds to what is spent; the undo adds the opposite. */
const adjust = async ({ id, name }: BudgetRecord, body: { amount: string; reason: string }, reload: () => void) => {
  await write('POST', `/budgets/${id}/adjust`, body)
  const undo = () =>
    void attempt(async () => {
      await write('POST', `/budgets/${id}/adjust`, { amount: negated(body.amount), reason: text.adjust.undo })
      toast(keysWords.undone(name))
      reload()
    })
  toast(text.adjust.done(name), { undo })
  reload()
}

export const AdjustDialog = ({ budget, close, reload }: ForBudget) => {
  const amount = useSignal('')
  const isAmount = /^-?[0-9]{1,9}(?:\.[0-9]{1,9})?$/.test(amount.value)
  const send = async (fields: FormData) => {
    await adjust(budget, { amount: textIn(fields, 'amount'), reason: textIn(fields, 'reason') }, reload)
    close()
  }
  const onInput = (fields: FormData) => {
    amount.value = textIn(fields, 'amount')
  }
  return (
    <Dialog title={text.adjust.title(budget.name)} onClose={close}>
      <Form send={send} close={close} submit={text.adjust.submit} isBlocked={!isAmount} onInput={onInput}>
        <p>{text.adjust.about}</p>
        <label class="field">
          {text.adjust.amount}
          <input name="amount" data-focus required autocomplete="off" />
        </label>
        <p class="dim" role="status">
          {isAmount && text.adjust.result(money(addDollars([budget.now.spent, amount.value])))}
        </p>
        <label class="field">
          {text.adjust.reason}
          <input name="reason" required maxLength={200} />
        </label>
      </Form>
    </Dialog>
  )
}

export const ResetDialog = ({ budget, close, reload }: ForBudget) => {
  const { id, name, now } = budget
  const send = async (fields: FormData) => {
    const reset = await write<{ readonly amount: string }>('POST', `/budgets/${id}/reset`, {
      reason: textIn(fields, 'reason'),
    })
    const undo = () =>
      void attempt(async () => {
        await write('POST', `/budgets/${id}/adjust`, { amount: negated(reset.amount), reason: text.adjust.undo })
        toast(keysWords.undone(name))
        reload()
      })
    toast(text.reset.done(name), { undo })
    reload()
    close()
  }
  return (
    <Dialog title={text.reset.title(name)} onClose={close}>
      <Form send={send} close={close} submit={text.reset.submit} danger>
        <p>{text.reset.about(money(now.spent))}</p>
        <label class="field">
          {text.adjust.reason}
          <input name="reason" data-focus required maxLength={200} />
        </label>
      </Form>
    </Dialog>
  )
}

export const DeleteBudgetDialog = ({ budget, close, reload }: ForBudget) => {
  const { id, name, rev } = budget
  const send = async () => {
    await write('DELETE', `/budgets/${id}`, undefined, { rev })
    toast(text.deleted(name))
    reload()
    close()
  }
  return (
    <Dialog title={text.remove.title(name)} onClose={close}>
      <Form send={send} close={close} submit={text.remove.submit} danger>
        <p>{text.remove.about}</p>
      </Form>
    </Dialog>
  )
}
