-- A claim takes a worker's few free places. Left to guess, the planner expects a thousand, and reads the whole table to update them.
alter function due_operations(text[], uuid[], int) rows 10;
