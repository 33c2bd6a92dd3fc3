/** What is said when a model refused and its format has no words for it: the client must be able to tell. */
export const REFUSAL_TEXT = 'The model refused to answer.'
