/** The refusal text for a refusal without text, so that the client can detect it. */
export const REFUSAL_TEXT = 'The model refused to answer.'
