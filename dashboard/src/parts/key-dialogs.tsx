/** Dialogs that create, change, rotate and revoke client keys. */
import { useSignal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { hasRole, problemIn, read, useResource, write } from '../api.ts'
import { minute } from '../format.ts'
import { entriesOf, type KeyRecord, type TeamRecord } from '../key-records.ts'
import { gatewayNow, toast } from '../store.ts'
import { keysWords } from '../words/keys.ts'
import { actKey, attempt, changeBlocked, changeRecord, type DialogEnd, Form } from './changing.tsx'
import { Dialog } from './dialog.tsx'
import { LimitFields, limitsIn, numberIn } from './limit-fields.tsx'
import { RequireFields, requireIn } from './require-fields.tsx'

/** A new secret, for the dialog that shows it once. */
export type NewSecret = { readonly name: string; readonly secret: string | null; readonly warning?: string | null }

const { form: text } = keysWords
const HOUR = 3_600_000
const EXPIRY_DAYS = [7, 30, 90, 365] as const
const PERIODS = ['month', 'week', 'day', 'total'] as const

const textIn = (data: FormData, name: string): string => String(data.get(name) ?? '').trim()

type KeyFieldsProps = { readonly record?: KeyRecord }

/** The fields that new and existing keys share. */
const KeyFields = ({ record }: KeyFieldsProps) => {
  const { limits, access } = record ?? {}
  return (
    <>
      <label class="field">
        {text.models}
        <input
          name="models"
          autocomplete="off"
          spellcheck={false}
          defaultValue={access?.models?.join(', ') ?? ''}
          aria-describedby="models-hint"
        />
        <span id="models-hint" class="small dim hint">
          {text.modelsHint}
        </span>
      </label>
      <LimitFields limits={limits} />
      <RequireFields require={record?.require} />
    </>
  )
}

const Expires = ({ isNew }: { readonly isNew: boolean }) => (
  <label class="field">
    {text.expires}
    <select name="expires">
      {!isNew && <option value="keep">{text.expiryKeep}</option>}
      <option value="">{text.expiryNever}</option>
      {EXPIRY_DAYS.map((days) => (
        <option key={days} value={days}>
          {text.expiryDays(days)}
        </option>
      ))}
    </select>
  </label>
)

const expiryIn = (data: FormData): string | null => {
  const days = numberIn(data, 'expires')
  return days === null ? null : new Date(gatewayNow() + days * 24 * HOUR).toISOString()
}

type CreateKeyProps = DialogEnd & {
  readonly teams: readonly TeamRecord[]
  readonly made: (secret: NewSecret) => void
}

export const CreateKeyDialog = ({ teams, made, close, reload }: CreateKeyProps) => {
  const once = useSignal(actKey())
  const send = async (data: FormData) => {
    const name = textIn(data, 'name')
    const team = textIn(data, 'team')
    const body = {
      name,
      ...(team !== '' && { team }),
      access: { models: entriesOf(textIn(data, 'models')) },
      limits: limitsIn(data),
      require: requireIn(data),
      expires_at: expiryIn(data),
    }
    const created = await write<KeyRecord & { readonly secret: string | null }>('POST', '/keys', body, {
      idempotencyKey: once.value,
    }).catch((error: unknown) => {
      // Another body is another act.
      once.value = actKey()
      throw error
    })
    const amount = textIn(data, 'amount')
    let warning: string | null = null
    if (amount !== '')
      try {
        const appliesTo = { keys: [created.id] }
        await write('POST', '/budgets', { name, amount, period: textIn(data, 'period'), appliesTo })
      } catch (error) {
        warning = text.budgetFailed(problemIn(error).message)
      }
    close()
    made({ name, secret: created.secret, warning })
    reload()
  }
  return (
    <Dialog title={text.create} onClose={close}>
      <Form send={send} close={close} submit={text.submit}>
        <label class="field">
          {text.name}
          <input name="name" data-focus required maxLength={64} autocomplete="off" spellcheck={false} />
        </label>
        {teams.length > 1 && (
          <label class="field">
            {text.team}
            <select name="team">
              {teams.map(({ id, name }) => (
                <option key={id} value={id} selected={name === 'default'}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        <KeyFields />
        <div class="fields">
          {hasRole('admin', 'all') && (
            <>
              <label class="field">
                {text.budget}
                <input name="amount" inputMode="decimal" pattern="[0-9]+([.][0-9]+)?" placeholder={text.noBudget} />
              </label>
              <label class="field">
                {text.period}
                <select name="period">
                  {PERIODS.map((period) => (
                    <option key={period} value={period}>
                      {keysWords.periods[period]}
                    </option>
                  ))}
                </select>
              </label>
            </>
          )}
          <Expires isNew />
        </div>
      </Form>
    </Dialog>
  )
}

export const EditKeyDialog = ({ record: latest, close, reload }: DialogEnd & { readonly record: KeyRecord }) => {
  // A change elsewhere since the dialog was opened is a conflict, not a new start.
  const [record] = useState(latest)
  const send = async (data: FormData) => {
    const models = entriesOf(textIn(data, 'models'))
    const expires = textIn(data, 'expires')
    const name = textIn(data, 'name')
    const limits = limitsIn(data)
    const require = requireIn(data, record.require)
    const patch = {
      ...(name !== record.name && { name }),
      ...(JSON.stringify(models) !== JSON.stringify(record.access.models) && { access: { models } }),
      ...(JSON.stringify(limits) !== JSON.stringify(record.limits) && { limits }),
      ...(JSON.stringify(require) !== JSON.stringify(record.require) && { require }),
      ...(expires !== 'keep' && { expires_at: expiryIn(data) }),
    }
    if (Object.keys(patch).length === 0) {
      toast(text.nothingChanged)
      close()
      return
    }
    const back = {
      ...('name' in patch && { name: record.name }),
      ...('access' in patch && { access: { models: record.access.models } }),
      ...('limits' in patch && { limits: record.limits }),
      ...('require' in patch && { require: record.require }),
      ...('expires_at' in patch && { expires_at: record.expires_at }),
    }
    const done = keysWords.saved(record.name)
    await changeRecord({
      path: `/keys/${record.id}`,
      name: record.name,
      rev: record.rev,
      patch,
      back,
      done,
      after: reload,
    })
    close()
  }
  return (
    <Dialog title={text.edit(record.name)} onClose={close}>
      <Form send={send} close={close} submit={text.save}>
        <label class="field">
          {text.name}
          <input
            name="name"
            data-focus
            required
            maxLength={64}
            autocomplete="off"
            spellcheck={false}
            defaultValue={record.name}
          />
        </label>
        <KeyFields record={record} />
        <Expires isNew={false} />
      </Form>
    </Dialog>
  )
}

const OVERLAPS = ['24h', '1h', '7d', '0s'] as const

export const RotateDialog = ({
  record,
  made,
  close,
  reload,
}: DialogEnd & { readonly record: KeyRecord; readonly made: (secret: NewSecret) => void }) => {
  const once = useSignal(actKey())
  const send = async (data: FormData) => {
    const body = { overlap: textIn(data, 'overlap') }
    const rotated = await write<{ readonly secret: string | null }>('POST', `/keys/${record.id}/rotate`, body, {
      idempotencyKey: once.value,
    })
    close()
    made({ name: record.name, secret: rotated.secret })
    reload()
  }
  return (
    <Dialog title={keysWords.rotate.title(record.name)} onClose={close}>
      <Form send={send} close={close} submit={keysWords.rotate.submit}>
        <p>{keysWords.rotate.about}</p>
        <label class="field">
          {keysWords.rotate.overlap}
          <select name="overlap" data-focus>
            {OVERLAPS.map((overlap) => (
              <option key={overlap} value={overlap}>
                {keysWords.rotate.options[overlap]}
              </option>
            ))}
          </select>
        </label>
      </Form>
    </Dialog>
  )
}

type RecentUse = {
  readonly data: readonly { readonly received_at: string }[]
  readonly count?: { readonly value: number; readonly exact: boolean }
}

/** What still uses a key. */
export const RecentUseLine = ({ id }: { readonly id: string }) => {
  const from = new Date(Math.floor((gatewayNow() - HOUR) / 60_000) * 60_000).toISOString()
  const use = useResource(`use ${id}`, () => read<RecentUse>('/requests', { key: [id], from, count: true, limit: 1 }))
  if (use.problem) return <p class="bad">{use.problem.message}</p>
  if (!use.value) return <p class="dim">…</p>
  const { data, count } = use.value
  const [last] = data
  if (!last || !count) return <p>{keysWords.revoke.unused}</p>
  return (
    <p>
      {keysWords.revoke.used(keysWords.revoke.requests(count.value, count.exact), minute(Date.parse(last.received_at)))}
    </p>
  )
}

/** Blocks or unblocks a key, with an undo. */
export const setBlocked = (record: KeyRecord, isBlocked: boolean, reload: () => void): Promise<boolean> =>
  changeBlocked({ path: `/keys/${record.id}`, name: record.name }, isBlocked, reload)

export const RevokeDialog = ({ record, close, reload }: DialogEnd & { readonly record: KeyRecord }) => {
  const typed = useSignal('')
  const send = async () => {
    await write('DELETE', `/keys/${record.id}`, undefined, { rev: record.rev })
    toast(keysWords.revoke.done(record.name))
    close()
    reload()
  }
  const onInput = (data: FormData) => {
    typed.value = textIn(data, 'typed')
  }
  return (
    <Dialog title={keysWords.revoke.title(record.name)} onClose={close}>
      <Form
        send={send}
        close={close}
        submit={keysWords.revoke.submit}
        danger
        isBlocked={typed.value !== record.name}
        onInput={onInput}
      >
        <p>{keysWords.revoke.about}</p>
        <RecentUseLine id={record.id} />
        {record.status === 'active' && (
          <div>
            <button
              type="button"
              class="button"
              onClick={() => {
                close()
                void setBlocked(record, true, reload)
              }}
            >
              {keysWords.revoke.block}
            </button>
          </div>
        )}
        <label class="field">
          {keysWords.revoke.type(record.name)}
          <input name="typed" data-focus autocomplete="off" spellcheck={false} />
        </label>
      </Form>
    </Dialog>
  )
}

type BulkAnswer = {
  readonly done: number
  readonly failed: readonly { readonly id: string; readonly error: { readonly message: string } }[]
}

/** Blocks or revokes several keys, and lists those that failed. */
export const changeMany = async (
  action: 'block' | 'unblock' | 'revoke',
  ids: readonly string[],
  reload: () => void,
): Promise<void> => {
  const { done, failed } = await write<BulkAnswer>('POST', '/keys/bulk', { action, ids })
  const [first] = failed
  if (first) toast(keysWords.bulkFailed(failed.length, first.error.message), { tone: 'bad' })
  if (done > 0)
    toast(keysWords.bulkDone(done, action === 'revoke' ? 'revoked' : `${action}ed`), {
      undo: action === 'block' ? () => void attempt(() => changeMany('unblock', ids, reload)) : null,
    })
  reload()
}

type BulkRevokeProps = DialogEnd & { readonly records: readonly KeyRecord[] }

export const BulkRevokeDialog = ({ records, close, reload }: BulkRevokeProps) => {
  const typed = useSignal('')
  const send = async () => {
    await changeMany(
      'revoke',
      records.map(({ id }) => id),
      reload,
    )
    close()
  }
  const onInput = (data: FormData) => {
    typed.value = textIn(data, 'typed')
  }
  const isBlocked = typed.value !== keysWords.bulkWord
  return (
    <Dialog title={keysWords.bulkTitle(records.length)} onClose={close}>
      <Form send={send} close={close} submit={keysWords.revoke.submit} danger isBlocked={isBlocked} onInput={onInput}>
        <p>{keysWords.revoke.about}</p>
        <ul class="keys-names">
          {records.map(({ id, name }) => (
            <li key={id}>{name}</li>
          ))}
        </ul>
        <label class="field">
          {keysWords.bulkType}
          <input name="typed" data-focus autocomplete="off" spellcheck={false} />
        </label>
      </Form>
    </Dialog>
  )
}
