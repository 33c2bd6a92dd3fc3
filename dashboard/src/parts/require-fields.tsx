/** Fields of a form with what is required of the data: regions, retention, training. */
import { entriesOf, type KeyRecord } from '../key-records.ts'
import { keysWords } from '../words/keys.ts'

const { form: text } = keysWords

type Require = KeyRecord['require']

/** What the fields state. `[]`, no region at all, stays until regions are named. */
export const requireIn = (data: FormData, before?: Require): Require => {
  const retention = String(data.get('retention') ?? '').trim()
  return {
    region: entriesOf(String(data.get('regions') ?? '').trim()) ?? (before?.region?.length === 0 ? [] : null),
    retention: retention === '' ? null : Number(retention),
    training: data.get('training') === null ? null : false,
  }
}

export const RequireFields = ({ require }: { readonly require?: Require | undefined }) => {
  const { region, retention, training } = require ?? {}
  return (
    <>
      <label class="field">
        {text.regions}
        <input
          name="regions"
          autocomplete="off"
          spellcheck={false}
          defaultValue={region?.join(', ') ?? ''}
          aria-describedby="regions-hint"
        />
        <span id="regions-hint" class="small dim hint">
          {text.regionsHint}
        </span>
      </label>
      <div class="fields">
        <label class="field">
          {text.retention}
          <input
            type="number"
            name="retention"
            min="0"
            step="1"
            placeholder={text.anyRetention}
            defaultValue={retention ?? ''}
          />
        </label>
        <label class="row">
          <input type="checkbox" name="training" defaultChecked={training === false} /> {text.noTraining}
        </label>
      </div>
    </>
  )
}
