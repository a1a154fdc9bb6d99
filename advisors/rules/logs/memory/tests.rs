//! Rules on texts that were made here, by real compilers where one could be brought to say so.
