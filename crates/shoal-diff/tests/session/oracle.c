/* SQLite's session extension as a program: one operation a run, files in and out.
**
**   record DB SQL-FILE OUT changeset|patchset ROWIDS
**   apply DB IN omit|replace|abort NOTES-OUT
**   invert IN OUT
**   concat A B OUT
**   rebase NOTES IN OUT
**
** The exit code is 0, or SQLite's code. apply prints the conflicts, a line each, and the seconds
** of the application on stderr.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "sqlite3.h"

static void *read_file(const char *path, int *length){
  FILE *file = fopen(path, "rb");
  char *bytes;
  long size;
  if( file==0 ) exit(100);
  fseek(file, 0, SEEK_END);
  size = ftell(file);
  rewind(file);
  bytes = malloc(size+1);
  if( fread(bytes, 1, size, file)!=(size_t)size ) exit(101);
  bytes[size] = 0;
  fclose(file);
  *length = (int)size;
  return bytes;
}

static void write_file(const char *path, const void *bytes, int length){
  FILE *file = fopen(path, "wb");
  if( file==0 ) exit(102);
  if( length>0 && fwrite(bytes, 1, length, file)!=(size_t)length ) exit(103);
  fclose(file);
}

static sqlite3 *open_file(const char *path){
  sqlite3 *db = 0;
  if( sqlite3_open(path, &db) ) exit(104);
  return db;
}

static int record(char **word){
  sqlite3 *db = open_file(word[0]);
  sqlite3_session *session = 0;
  int length, rowids = atoi(word[4]), rc;
  char *sql = read_file(word[1], &length), *message = 0;
  void *out = 0;
  rc = sqlite3session_create(db, "main", &session);
  if( rc==0 && rowids ) rc = sqlite3session_object_config(session, SQLITE_SESSION_OBJCONFIG_ROWID, &rowids);
  if( rc==0 ) rc = sqlite3session_attach(session, 0);
  if( rc==0 ) rc = sqlite3_exec(db, sql, 0, 0, &message);
  if( message ) fprintf(stderr, "%s\n", message);
  if( rc==0 && strcmp(word[3], "patchset")==0 ) rc = sqlite3session_patchset(session, &length, &out);
  else if( rc==0 ) rc = sqlite3session_changeset(session, &length, &out);
  if( rc==0 ) write_file(word[2], out, length);
  sqlite3session_delete(session);
  sqlite3_close(db);
  return rc;
}

static int on_conflict(void *policy, int kind, sqlite3_changeset_iter *iter){
  const char *table = "", *answer = policy;
  int columns = 0, op = 0, indirect = 0;
  sqlite3changeset_op(iter, &table, &columns, &op, &indirect);
  printf("%d %s %d\n", kind, kind==SQLITE_CHANGESET_FOREIGN_KEY ? "" : table, op);
  if( strcmp(answer, "abort")==0 ) return SQLITE_CHANGESET_ABORT;
  if( strcmp(answer, "replace")==0
   && (kind==SQLITE_CHANGESET_DATA || kind==SQLITE_CHANGESET_CONFLICT) ){
    return SQLITE_CHANGESET_REPLACE;
  }
  return SQLITE_CHANGESET_OMIT;
}

static int apply(char **word){
  sqlite3 *db = open_file(word[0]);
  int length, notes_length = 0, rc;
  void *in = read_file(word[1], &length), *notes = 0;
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  rc = sqlite3changeset_apply_v2(db, length, in, 0, on_conflict, word[2], &notes, &notes_length, 0);
  clock_gettime(CLOCK_MONOTONIC, &to);
  fprintf(stderr, "%.6f\n", (to.tv_sec-from.tv_sec) + (to.tv_nsec-from.tv_nsec)/1e9);
  if( rc==0 ) write_file(word[3], notes, notes_length);
  sqlite3_close(db);
  return rc;
}

static int rebase(char **word){
  sqlite3_rebaser *rebaser = 0;
  int notes_length, in_length, out_length = 0, rc;
  void *notes = read_file(word[0], &notes_length), *in = read_file(word[1], &in_length), *out = 0;
  rc = sqlite3rebaser_create(&rebaser);
  if( rc==0 ) rc = sqlite3rebaser_configure(rebaser, notes_length, notes);
  if( rc==0 ) rc = sqlite3rebaser_rebase(rebaser, in_length, in, &out_length, &out);
  if( rc==0 ) write_file(word[2], out, out_length);
  return rc;
}

int main(int count, char **word){
  int a, b, length = 0, rc;
  void *in, *second, *out = 0;
  if( count<4 ) return 99;
  if( strcmp(word[1], "record")==0 ) return record(word+2);
  if( strcmp(word[1], "apply")==0 ) return apply(word+2);
  if( strcmp(word[1], "rebase")==0 ) return rebase(word+2);
  in = read_file(word[2], &a);
  if( strcmp(word[1], "invert")==0 ){
    rc = sqlite3changeset_invert(a, in, &length, &out);
    if( rc==0 ) write_file(word[3], out, length);
    return rc;
  }
  if( strcmp(word[1], "concat")==0 ){
    second = read_file(word[3], &b);
    rc = sqlite3changeset_concat(a, in, b, second, &length, &out);
    if( rc==0 ) write_file(word[4], out, length);
    return rc;
  }
  return 98;
}
